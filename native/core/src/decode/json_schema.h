// The columns that a record of JSON is read into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pyslash/types.h"

namespace pyslash {

enum class JsonKind : uint8_t {
  value,   // of a type that is read here
  other,   // of another type: null, or Spark's
  wide,    // the same, of a type for whose null Spark keeps room
  none,    // always null
  record,  // a struct
};

struct JsonField {
  // Whether its values stand behind the fields of their row.
  bool is_variable() const {
    return kind == JsonKind::record || (kind == JsonKind::value && type.id == TypeId::string);
  }

  JsonKind kind = JsonKind::value;
  Type type;
  std::string name;
  size_t number = 0;              // among all fields of the schema
  std::vector<JsonField> fields;  // of a struct
  bool has_wide = false;          // it is a struct with wide fields
};

struct JsonSchema {
  // Grammar: pyslash/records.h. Status::invalid_plan if the text has another.
  static JsonSchema parse(std::string_view text);

  JsonField root;   // the record, as a struct
  size_t size = 0;  // all fields, those of structs and the root included
  std::optional<int64_t> zone_seconds;
};

}  // namespace pyslash
