#include "decode/avro_schema.h"

#include <array>
#include <utility>

#include "decode/schema_words.h"

namespace pyslash {
namespace {

constexpr size_t max_depth = 64;
constexpr int64_t max_number = 1 << 20;  // of fields, symbols, bytes

constexpr std::array<std::pair<std::string_view, AvroKind>, 24> kinds{{
    {"null", AvroKind::null},
    {"boolean", AvroKind::boolean},
    {"int", AvroKind::int32},
    {"long", AvroKind::int64},
    {"float", AvroKind::float32},
    {"double", AvroKind::float64},
    {"text", AvroKind::text},
    {"utf8", AvroKind::utf8},
    {"date", AvroKind::date},
    {"timestamp-millis", AvroKind::timestamp_millis},
    {"timestamp-micros", AvroKind::timestamp_micros},
    {"local-millis", AvroKind::local_millis},
    {"local-micros", AvroKind::local_micros},
    {"decimal", AvroKind::decimal},
    {"fixed-decimal", AvroKind::fixed_decimal},
    {"enum", AvroKind::symbol},
    {"record", AvroKind::record},
    {"option", AvroKind::option},
    {"fixed", AvroKind::fixed},
    {"array", AvroKind::array},
    {"map", AvroKind::map},
    {"union", AvroKind::one_of},
    {"other", AvroKind::other},
    {"wide", AvroKind::wide},
}};

AvroKind kind_of(std::string_view word) {
  for (const auto& [name, kind] : kinds) {
    if (name == word) return kind;
  }
  SchemaWords::fail(SchemaWords::quoted(word) + " is no type of Avro");
}

size_t count(SchemaWords& words) {
  const int64_t number = words.number();
  if (number < 0 || number > max_number) SchemaWords::fail("there are too many of something");
  return static_cast<size_t>(number);
}

AvroType parse_type(SchemaWords& words, bool is_column, size_t depth) {
  if (depth == max_depth) SchemaWords::fail("it is too deep");
  AvroType type;
  type.kind = kind_of(words.next());
  type.is_column = is_column;
  size_t types = 0;
  switch (type.kind) {
    case AvroKind::fixed:
      type.bytes = count(words);
      break;
    case AvroKind::fixed_decimal:
      type.bytes = count(words);
      [[fallthrough]];
    case AvroKind::decimal:
      type.digits = count(words);
      if (type.digits == 0 || type.digits > max_int64_digits) SchemaWords::fail("a decimal has too many digits");
      break;
    case AvroKind::symbol:
      for (size_t left = count(words); left > 0; --left) type.symbols.push_back(words.bytes());
      break;
    case AvroKind::record:
      for (size_t left = count(words); left > 0; --left) {
        const auto word = words.next();
        if (word != "column" && word != "unused") SchemaWords::fail(SchemaWords::quoted(word) + " is no field");
        type.types.push_back(parse_type(words, is_column && word == "column", depth + 1));
      }
      break;
    case AvroKind::array:
    case AvroKind::map:
      types = 1;
      break;
    case AvroKind::option:
      types = 2;
      break;
    case AvroKind::one_of:
      types = count(words);
      break;
    default:
      break;
  }
  while (type.types.size() < types) type.types.push_back(parse_type(words, is_column, depth + 1));
  return type;
}

}  // namespace

AvroType parse_avro_schema(std::string_view text) {
  SchemaWords words(text);
  words.expect("pyslash-avro");
  words.expect("1");
  AvroType root = parse_type(words, true, 0);
  if (root.kind != AvroKind::record) SchemaWords::fail("it is of no record");
  if (!words.at_end()) SchemaWords::fail("it goes on behind its record");
  return root;
}

}  // namespace pyslash
