// The types that a record of Avro is made of, and which of them are columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pyslash {

enum class AvroKind : uint8_t {
  null,
  boolean,
  int32,
  int64,
  float32,
  float64,
  text,  // bytes behind their number
  utf8,  // the same, if they are that
  date,
  timestamp_millis,
  timestamp_micros,
  local_millis,  // of no zone
  local_micros,
  decimal,        // its unscaled value in bytes behind their number
  fixed_decimal,  // or in so many bytes
  symbol,         // one of an enum's
  record,
  option,  // null or one other type
  // Of these a column has only what is null.
  fixed,
  array,
  map,
  one_of,
  other,  // which only Spark reads
  wide,   // the same, of a type for whose null Spark keeps room
};

struct AvroType {
  AvroKind kind = AvroKind::null;
  bool is_column = false;            // else it is passed over
  size_t bytes = 0;                  // of a fixed
  size_t digits = 0;                 // of a decimal
  std::vector<std::string> symbols;  // of an enum
  std::vector<AvroType> types;       // of a record's fields; of an array, a map, a union
};

// Grammar: pyslash/records.h. Status::invalid_plan if the text has another.
AvroType parse_avro_schema(std::string_view text);

}  // namespace pyslash
