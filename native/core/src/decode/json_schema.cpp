#include "decode/json_schema.h"

#include <utility>

#include "decode/schema_words.h"

namespace pyslash {
namespace {

constexpr size_t max_depth = 16;

JsonField parse_field(SchemaWords& words, size_t& size, size_t depth);

void add_field(JsonField& record, JsonField field) {
  record.has_wide |= field.kind == JsonKind::wide;
  record.fields.push_back(std::move(field));
}

JsonField parse_field(SchemaWords& words, size_t& size, size_t depth) {
  if (depth == max_depth) SchemaWords::fail("it is too deep");
  JsonField field;
  field.number = size++;
  if (const auto word = words.next(); word == "struct") {
    field.kind = JsonKind::record;
    field.name = words.bytes();
    const int64_t fields = words.number();
    for (int64_t i = 0; i < fields; ++i) add_field(field, parse_field(words, size, depth + 1));
    return field;
  } else if (word != "field") {
    SchemaWords::fail(SchemaWords::quoted(word) + " is no column");
  }
  const std::string_view type = words.next();
  if (type == "none") {
    field.kind = JsonKind::none;
    words.expect("-");
    return field;
  }
  if (type == "other" || type == "wide") {
    field.kind = type == "wide" ? JsonKind::wide : JsonKind::other;
  } else {
    field.type = SchemaWords::type_of(type);
  }
  field.name = words.bytes();
  return field;
}

}  // namespace

JsonSchema JsonSchema::parse(std::string_view text) {
  SchemaWords words(text);
  JsonSchema schema;
  words.expect("pyslash-json");
  words.expect("1");
  words.expect("zone");
  schema.zone_seconds = words.number_or_dash();
  schema.root.kind = JsonKind::record;
  schema.root.number = schema.size++;
  while (!words.at_end()) add_field(schema.root, parse_field(words, schema.size, 0));
  return schema;
}

}  // namespace pyslash
