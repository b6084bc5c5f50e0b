// Records of JSON into Spark's UnsafeRows, where it is certain that Spark's from_json reads the same.
//
// This is no general parser: it recognizes the plain shape of what programs write, and leaves the rest to Spark's own
// parser, record by record. docs/design/026 says what is plain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash {

// Not safe for concurrent use.
class JsonReader {
 public:
  // The schema as text, a word a thing:
  //
  //   pyslash-json 1
  //   zone 3600                    seconds to the east of UTC of times that name no zone; -: Spark reads such times
  //   field int64 6964             a column: its type, and its name as hexadecimal UTF-8
  //   field other 6964             of a type that is not read here: only null is
  //   field none -                 a column that no record has
  //   struct 75736572 2            a column that is a struct of the next two fields
  //
  // Status::invalid_plan if it is none. `sized`: rows of lines stand each behind its int64 size.
  explicit JsonReader(std::string_view schema, bool sized = false);
  ~JsonReader();
  JsonReader(JsonReader&&) noexcept;
  JsonReader& operator=(JsonReader&&) noexcept;

  // The record as an UnsafeRow (docs/design/007), valid until the next call; nothing if Spark has to read it.
  std::optional<Bytes> read(Bytes record);

  // A line of a page without what ends it, and its UnsafeRow; no row if Spark has to read it. Of the first 64 columns
  // a bit tells whether the record has them.
  struct Line {
    Bytes text;
    Bytes row;
    uint64_t present = 0;
  };
  struct Lines {
    std::vector<Line> lines;  // but those that are empty
    Bytes rows;               // all of them: a page as Accumulator::add_rows takes it
    size_t left = 0;          // lines without a row
    size_t consumed = 0;      // bytes of the page, up to where the next line starts
    bool is_full = false;     // there was no room for the row of the next line, which is in the page
  };

  // The records of a part of a text file, one a line; valid until the next call. A line ends with \n, \r or \r\n, as
  // Hadoop has it. `last_start`: the last offset in the page at which a line of this part may start. `skips_first`: the
  // page begins within a line that is another part's. `is_end`: nothing follows the page, so its last line ends there.
  const Lines& read_lines(Bytes page, size_t last_start, bool skips_first, bool is_end);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
