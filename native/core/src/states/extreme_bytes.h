// min and max of strings and binaries.
#pragma once

#include "pyslash/states.h"
#include "states/byte_values.h"

namespace pyslash {

template <bool is_min>
class ExtremeBytes final : public ValueState {
 public:
  void resize(size_t groups) override { values_.resize(groups); }
  size_t size() const override { return values_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i]) offer(groups[i], load<BytesRef>(column.values, i));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const ByteValues& from = static_cast<const ExtremeBytes&>(source).values_;
    for (size_t i = 0; i < count; ++i) {
      if (from.present(source_first + i)) offer(first + i, from[source_first + i]);
    }
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      if (ByteValues::present(buffers, i)) offer(groups[i], ByteValues::value(buffers, i));
    }
  }

  size_t buffers() const override { return ByteValues::buffers; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    values_.measure(groups, lengths);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    values_.write(groups, buffers);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override { return ByteValues::fits(buffers, rows); }
  std::vector<size_t> offset_buffers() const override { return ByteValues::offset_buffers(); }
  uint64_t variable_bytes(std::span<const uint32_t> groups) const override { return values_.total(groups); }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override { values_.gather(groups, out); }

 private:
  void offer(size_t group, BytesRef candidate) {
    if (values_.present(group) && !(is_min ? candidate < values_[group] : candidate > values_[group])) return;
    values_.set(group, candidate);
  }

  ByteValues values_;
};

}  // namespace pyslash
