// min and max of fixed-width values.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "pyslash/states.h"
#include "states/buffers.h"

namespace pyslash {

// Spark's order of floats: NaN is the greatest value. Hence NaN is the identity of min.
template <typename T, bool is_min>
struct Extreme {
  static T identity() {
    if constexpr (std::is_floating_point_v<T>) {
      return is_min ? std::numeric_limits<T>::quiet_NaN() : -std::numeric_limits<T>::infinity();
    } else if constexpr (sizeof(T) == 16) {
      const T greatest = static_cast<T>(~uint128_t{0} >> 1);
      return is_min ? greatest : -greatest - 1;
    } else {
      return is_min ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    }
  }
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if constexpr (is_min) {
        return std::isnan(a) || b < a ? b : a;
      } else {
        return std::isnan(b) || b > a ? (std::isnan(a) ? a : b) : a;
      }
    } else {
      return is_min ? (b < a ? b : a) : (a < b ? b : a);
    }
  }
};

template <typename T, bool is_min>
class ExtremeValue final : public ValueState {
  using Rule = Extreme<T, is_min>;

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
    const T* from = static_cast<const ExtremeValue&>(source).values_.data() + source_first;
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
