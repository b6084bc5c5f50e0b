// One value of fixed width a group, into which those of its rows are folded: min and max, bit_and and its like.
#pragma once

#include <span>
#include <vector>

#include "pyslash/states.h"
#include "states/buffers.h"

namespace pyslash {

// `Rule::of(T, T)` folds two values into one, in any order; with `Rule::identity()` it gives the other one.
template <typename T, typename Rule>
class FoldedValue final : public ValueState {
 public:
  void resize(size_t groups) override { values_.resize(groups, Rule::identity()); }
  size_t size() const override { return values_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    T* values = values_.data();
    if (column.valid == nullptr) {
      for (size_t i = 0; i < rows; ++i) values[groups[i]] = Rule::of(values[groups[i]], load<T>(column.values, i));
    } else {
      for (size_t i = 0; i < rows; ++i) {
        if (column.valid[i]) values[groups[i]] = Rule::of(values[groups[i]], load<T>(column.values, i));
      }
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const T* from = static_cast<const FoldedValue&>(source).values_.data() + source_first;
    T* to = values_.data() + first;
    for (size_t i = 0; i < count; ++i) to[i] = Rule::of(to[i], from[i]);
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      values_[groups[i]] = Rule::of(values_[groups[i]], load<T>(buffers[0].data(), i));
    }
  }
  size_t buffers() const override { return 1; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = groups.size() * sizeof(T);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    gather_into(values_, groups, buffers[0]);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return buffers[0].size() == rows * sizeof(T);
  }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.offsets.clear();
    out.values.resize(groups.size() * sizeof(T));
    gather_into(values_, groups, out.values);
  }

 private:
  std::vector<T> values_;
};

}  // namespace pyslash
