// Records of JSON into Spark's UnsafeRows, where it is certain that Spark's from_json reads the same.
//
// This is no general parser: it recognizes the plain shape of what programs write, and leaves the rest to Spark's own
// parser, record by record. docs/design/026 says what is plain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

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
  // Status::invalid_plan if it is none.
  explicit JsonReader(std::string_view schema);
  ~JsonReader();
  JsonReader(JsonReader&&) noexcept;
  JsonReader& operator=(JsonReader&&) noexcept;

  // The record as an UnsafeRow (docs/design/007), valid until the next call; nothing if Spark has to read it.
  std::optional<Bytes> read(Bytes record);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
