// min and max of fixed-width values.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "states/folded_value.h"

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
using ExtremeValue = FoldedValue<T, Extreme<T, is_min>>;

}  // namespace pyslash
