// Spark's atomic types as the core keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pyslash {

__extension__ using int128_t = __int128;
__extension__ using uint128_t = unsigned __int128;

enum class TypeId : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  float32,
  float64,
  date,           // int32, days since 1970-01-01
  timestamp,      // int64, microseconds since 1970-01-01 UTC
  timestamp_ntz,  // int64, microseconds since 1970-01-01, no zone
  decimal,        // unscaled integer: int64 up to 18 digits, int128 beyond
  string,
  binary,
};

struct Type {
  TypeId id = TypeId::int64;
  uint8_t precision = 0;  // decimals only
  uint8_t scale = 0;

  // Reads a name of the plan text, e.g. "int64", "decimal(10,2)". Status::invalid_plan if there is no such type.
  static Type parse(std::string_view name);
  std::string name() const;

  // Bytes of a value in the core's own columns: a boolean is one byte (0 or 1), a decimal 8 or 16; 0 for string and
  // binary.
  size_t width() const;
  bool is_variable() const { return id == TypeId::string || id == TypeId::binary; }
  bool is_decimal() const { return id == TypeId::decimal; }
  bool is_floating() const { return id == TypeId::float32 || id == TypeId::float64; }
  bool is_timestamp() const { return id == TypeId::timestamp || id == TypeId::timestamp_ntz; }
  bool is_integer() const { return id >= TypeId::int8 && id <= TypeId::int64; }

  bool operator==(const Type&) const = default;
};

// Spark's Decimal.MAX_LONG_DIGITS: the most digits that always fit an int64.
inline constexpr int max_int64_digits = 18;
inline constexpr int max_decimal_digits = 38;

// 10 to the power of `exponent`, 0 <= exponent <= 38.
int128_t power_of_ten(int exponent);

}  // namespace pyslash
