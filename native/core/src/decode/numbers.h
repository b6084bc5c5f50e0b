// Numbers as programs write them, and what values of Spark's types they are.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "pyslash/types.h"

namespace pyslash {

// [-]digits[.digits][e[+-]digits] without leading zeros: JSON's, and what each of Spark's readers takes for a number.
struct Number {
  std::string_view text;
  uint64_t unscaled = 0;  // the digits without sign and point, if they are at most 19
  size_t digits = 0;      // before the point
  size_t fraction = 0;    // digits behind the point
  bool negative = false;
  bool has_point = false;
  bool has_exponent = false;

  bool is_integer() const { return !has_point && !has_exponent; }

  // The number at `at`, which goes on to behind it; false if there is none, or one that is very long.
  bool read(const uint8_t*& at, const uint8_t* end);
};

inline bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

inline constexpr size_t safe_digits = 18;  // of an integer: they fit an int64, and a double is rounded from it once

// Jackson rounds the text to a double, and some of its releases that to a float: the same float unless the double lies
// just between two.
inline bool is_float(double value) {
  const double size = std::fabs(value);
  if (size != 0 && (size < std::numeric_limits<float>::min() || size > std::numeric_limits<float>::max())) return false;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits & 0x1fffffff) != 0x10000000;
}

template <typename T, typename Set>
bool set_integer(const Number& number, const Set& set) {
  if (!number.is_integer() || number.digits > safe_digits) return false;
  const auto size = static_cast<int64_t>(number.unscaled);
  const int64_t value = number.negative ? -size : size;
  return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max() && set(static_cast<T>(value));
}

template <typename Set>
bool set_floating(const Number& number, const Set& set) {
  if (number.is_integer() && number.digits > safe_digits) return false;
  double value = 0;
  const auto [end, error] = std::from_chars(number.text.data(), number.text.data() + number.text.size(), value);
  if (error != std::errc()) return false;
  if (number.negative && value == 0) return false;  // with its sign or without it: Spark's parser knows
  return set(value);
}

// `set` gets the value in its C++ type; false if the number is not surely a value of this type.
template <typename Set>
bool set_number(const Type& type, const Number& number, const Set& set) {
  switch (type.id) {
    case TypeId::int8:
      return set_integer<int8_t>(number, set);
    case TypeId::int16:
      return set_integer<int16_t>(number, set);
    case TypeId::int32:
      return set_integer<int32_t>(number, set);
    case TypeId::int64:
      return set_integer<int64_t>(number, set);
    case TypeId::float32:
      return set_floating(number, [&](double value) { return is_float(value) && set(static_cast<float>(value)); });
    case TypeId::float64:
      return set_floating(number, set);
    case TypeId::decimal: {
      if (number.has_exponent || number.fraction > type.scale || number.digits + type.scale > type.precision) {
        return false;
      }
      const auto power = static_cast<int64_t>(power_of_ten(static_cast<int>(type.scale - number.fraction)));
      const int64_t size = static_cast<int64_t>(number.unscaled) * power;
      return set(number.negative ? -size : size);
    }
    default:
      return false;
  }
}

}  // namespace pyslash
