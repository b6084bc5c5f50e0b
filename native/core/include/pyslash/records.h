// Records of JSON, CSV or Avro into Spark's UnsafeRows, where it is certain that Spark reads the same.
//
// This is no general parser: it recognizes the plain shape of what programs write, and leaves the rest to Spark's own
// parsers, record by record. docs/design/026, 041 and 068 say what is plain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash {

// Not safe for concurrent use.
class RecordReader {
 public:
  // The schema as text, a word a thing. Of JSON:
  //
  //   pyslash-json 1
  //   zone 3600                    seconds to the east of UTC of times that name no zone; -: Spark reads such times
  //   field int64 6964             a column: its type, and its name as hexadecimal UTF-8
  //   field other 6964             of a type that is not read here: only null is
  //   field wide 6964              the same, a decimal of more than 18 digits
  //   field none -                 a column that no record has
  //   struct 75736572 2            a column that is a struct of the next two fields
  //
  // Of CSV, whose quote is '"':
  //
  //   pyslash-csv 1
  //   zone 3600
  //   separator 2c                 one byte of ASCII, as hexadecimal
  //   escape 5c
  //   null 4e41                    what is null beside an empty field, as hexadecimal UTF-8; -: nothing
  //   fields 7                     that a record has; -: any number, what is missing is null
  //   field int64 0                a column: its type, and the place of its field in the record
  //   field other 1
  //   field none -
  //
  // Of Avro, the types of what a record has, in order:
  //
  //   pyslash-avro 1
  //   record 3                     of so many fields, each a column; in a record, a struct
  //   column long                  also null, boolean, int, float, double, date, timestamp-millis, timestamp-micros,
  //                                local-millis, local-micros, text, which is bytes or a string, and utf8
  //   column option null decimal 9 a union with null and another type; also fixed-decimal 5 9, of five bytes
  //   unused array text            a column that nobody needs: null. Also map text, fixed 16, union 2 int text
  //   column enum 2 41 42          its symbols, as hexadecimal UTF-8
  //   column option null wide      a decimal of more than 18 digits: only null is read
  //
  // Status::invalid_plan if it is none. `sized`: rows of lines stand each behind its int64 size, and are only rows:
  // what stands behind the fields of one comes in any order.
  explicit RecordReader(std::string_view schema, bool sized = false);
  ~RecordReader();
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;

  // The record as an UnsafeRow (docs/design/007), valid until the next call; nothing if Spark has to read it. Of a
  // record and of its structs it has the bytes that Spark's own rows have: by these Spark tells structs apart.
  std::optional<Bytes> read(Bytes record);

  // A piece of a part of a text file, whose lines are records. A line ends with \n, \r or \r\n, as Hadoop has it.
  struct Page {
    Bytes bytes;
    size_t last_start = 0;     // the last offset at which a line of this part may start
    bool skips_first = false;  // it begins within a line that is another part's
    bool has_header = false;   // the first line that is not blank is no record
    bool is_end = false;       // nothing follows, so its last line ends there
  };

  // A line of a page without what ends it, and its UnsafeRow; no row if Spark has to read it. Of the first 64 columns
  // a bit tells whether the record has them.
  struct Line {
    Bytes text;
    Bytes row;
    uint64_t present = 0;
  };
  struct Lines {
    std::vector<Line> lines;  // but those that are empty, and those that are blank where Spark passes over them
    Bytes header;             // empty: none was looked for, or none has come yet
    Bytes rows;               // all of them: a page as Accumulator::add_rows takes it
    size_t left = 0;          // lines without a row
    size_t consumed = 0;      // bytes of the page, up to where the next line starts
    bool is_full = false;     // there was no room for the row of the next line, which is in the page
  };

  // Valid until the next call.
  const Lines& read_lines(const Page& page);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
