#include "pyslash/types.h"

#include <array>
#include <charconv>
#include <utility>

#include "pyslash/error.h"

namespace pyslash {
namespace {

constexpr std::array<std::pair<std::string_view, TypeId>, 12> plain_types{{
    {"boolean", TypeId::boolean},
    {"int8", TypeId::int8},
    {"int16", TypeId::int16},
    {"int32", TypeId::int32},
    {"int64", TypeId::int64},
    {"float32", TypeId::float32},
    {"float64", TypeId::float64},
    {"date", TypeId::date},
    {"timestamp", TypeId::timestamp},
    {"timestamp_ntz", TypeId::timestamp_ntz},
    {"string", TypeId::string},
    {"binary", TypeId::binary},
}};

[[noreturn]] void unknown(std::string_view name) {
  throw Error(Status::invalid_plan, "there is no type '" + std::string(name) + "'");
}

int number(std::string_view digits, std::string_view name) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) unknown(name);
  return value;
}

}  // namespace

Type Type::parse(std::string_view name) {
  for (const auto& [plain, id] : plain_types) {
    if (plain == name) return {id, 0, 0};
  }
  constexpr std::string_view prefix = "decimal(";
  const size_t comma = name.find(',');
  if (!name.starts_with(prefix) || !name.ends_with(")") || comma == std::string_view::npos) unknown(name);
  const int precision = number(name.substr(prefix.size(), comma - prefix.size()), name);
  const int scale = number(name.substr(comma + 1, name.size() - comma - 2), name);
  if (precision < 1 || precision > max_decimal_digits || scale < 0 || scale > precision) unknown(name);
  return {TypeId::decimal, static_cast<uint8_t>(precision), static_cast<uint8_t>(scale)};
}

std::string Type::name() const {
  for (const auto& [plain, type] : plain_types) {
    if (type == id) return std::string(plain);
  }
  return "decimal(" + std::to_string(precision) + "," + std::to_string(scale) + ")";
}

size_t Type::width() const {
  switch (id) {
    case TypeId::boolean:
    case TypeId::int8:
      return 1;
    case TypeId::int16:
      return 2;
    case TypeId::int32:
    case TypeId::float32:
    case TypeId::date:
      return 4;
    case TypeId::int64:
    case TypeId::float64:
    case TypeId::timestamp:
    case TypeId::timestamp_ntz:
      return 8;
    case TypeId::decimal:
      return precision <= max_int64_digits ? 8 : 16;
    case TypeId::string:
    case TypeId::binary:
      return 0;
  }
  return 0;
}

int128_t power_of_ten(int exponent) {
  int128_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

}  // namespace pyslash
