// States of a few doubles a group: what moments are made of.
#pragma once

#include <array>
#include <vector>

#include "pyslash/states.h"
#include "states/buffers.h"

namespace pyslash {

template <size_t fields>
class RecordState : public StateColumn {
 public:
  using Record = std::array<double, fields>;

  const Record& operator[](uint32_t group) const { return records_[group]; }

 protected:
  std::vector<Record> records_;
};

// `Rule` has the number of doubles, `fields`; of them, all zero is the identity of `Rule::merge(Record&, const
// Record&)`. `Rule::update(Record&, double...)` adds a row of `Rule::inputs` columns, all of float64; rows with a null
// are left out.
template <typename Rule>
class Records final : public RecordState<Rule::fields> {
 public:
  using Record = std::array<double, Rule::fields>;

  void resize(size_t groups) override { records_.resize(groups, Record{}); }
  size_t size() const override { return records_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      bool valid = true;
      std::array<double, Rule::inputs> values;
      for (size_t column = 0; column < values.size(); ++column) {
        const BatchColumn& of = input.columns[column];
        valid = valid && (of.valid == nullptr || of.valid[i]);
        values[column] = load<double>(of.values, i);
      }
      if (valid) std::apply([&](auto... value) { Rule::update(records_[groups[i]], value...); }, values);
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const Record* from = static_cast<const Records&>(source).records_.data() + source_first;
    Record* to = records_.data() + first;
    for (size_t i = 0; i < count; ++i) Rule::merge(to[i], from[i]);
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      Record from{};
      for (size_t field = 0; field < from.size(); ++field) {
        if (!buffers[field].empty()) from[field] = load<double>(buffers[field].data(), i);
      }
      Rule::merge(records_[groups[i]], from);
    }
  }

  size_t buffers() const override { return Rule::fields; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    for (size_t field = 0; field < Rule::fields; ++field) {
      const bool zero = std::ranges::all_of(groups, [&](uint32_t group) { return records_[group][field] == 0; });
      lengths[field] = zero ? 0 : groups.size() * sizeof(double);
    }
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    for (size_t field = 0; field < Rule::fields; ++field) {
      if (buffers[field].empty()) continue;
      for (size_t i = 0; i < groups.size(); ++i) store(buffers[field].data(), i, records_[groups[i]][field]);
    }
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return std::ranges::all_of(buffers, [&](Bytes buffer) { return fits_values<double>(buffer, rows); });
  }

 private:
  using RecordState<Rule::fields>::records_;
};

}  // namespace pyslash
