// What a record of one format is read as.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include "decode/row_builder.h"
#include "pyslash/bytes.h"

namespace pyslash {

enum class Reading : uint8_t {
  row,     // it is a row
  none,    // Spark passes over it
  sparks,  // Spark has to read it
};

class RecordFormat {
 public:
  virtual ~RecordFormat() = default;

  // Bytes of a row beyond those of its record's text: fields, what pads strings.
  virtual size_t most_beyond_text() const = 0;

  // Appends the record's row; anything may have been appended if there is none. Bytes behind the record may be looked
  // at up to `readable`, whatever they are. Of the first 64 columns `present` tells whether the record has them.
  virtual Reading append(Bytes record, const uint8_t* readable, RowBuilder& rows, uint64_t& present) = 0;
};

// As String.trim of Java has it: nothing of the line is more than a blank.
inline bool is_blank(Bytes line) {
  return std::ranges::all_of(line, [](uint8_t byte) { return byte <= ' '; });
}

// `as_values`: rows are structs that Spark may compare, not only rows of which fields are read.
std::unique_ptr<RecordFormat> json_format(std::string_view schema, bool as_values);
std::unique_ptr<RecordFormat> csv_format(std::string_view schema);
std::unique_ptr<RecordFormat> avro_format(std::string_view schema);

}  // namespace pyslash
