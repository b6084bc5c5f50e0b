// Counters: `rows` and `nulls`.
#pragma once

#include "pyslash/states.h"
#include "states/buffers.h"

namespace pyslash {

template <bool counts_nulls>
class Counter final : public CountState {
 public:
  void resize(size_t groups) override { counts_.resize(groups, 0); }
  size_t size() const override { return counts_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    int64_t* counts = counts_.data();
    if constexpr (counts_nulls) {
      const BatchColumn& column = input.columns[0];
      if (column.valid == nullptr) return;
      for (size_t i = 0; i < rows; ++i) counts[groups[i]] += 1 - column.valid[i];
    } else {
      for (size_t i = 0; i < rows; ++i) ++counts[groups[i]];
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const int64_t* from = static_cast<const Counter&>(source).counts_.data() + source_first;
    int64_t* to = counts_.data() + first;
    for (size_t i = 0; i < count; ++i) to[i] = wrapped_sum(to[i], from[i]);
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    if (buffers[0].empty()) return;
    for (size_t i = 0; i < rows; ++i) {
      counts_[groups[i]] = wrapped_sum(counts_[groups[i]], load<int64_t>(buffers[0].data(), i));
    }
  }
  size_t buffers() const override { return 1; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = length_unless_zero(counts_, groups);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    gather_into(counts_, groups, buffers[0]);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return fits_values<int64_t>(buffers[0], rows);
  }
};

}  // namespace pyslash
