// Columns in three forms: as Arrow hands them in, as the core's loops read them, and as results leave.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pyslash/types.h"

namespace pyslash {

// Arrow's layout of one array. `offset` is the array's own: the index of row 0 in validity, values and offsets alike.
struct ColumnView {
  Type type;
  const uint8_t* validity = nullptr;  // bitmap, least significant bit first; null: all rows are valid
  const uint8_t* values = nullptr;    // booleans: bitmap; decimals: 16 bytes each; string and binary: their bytes
  const uint8_t* offsets = nullptr;   // string and binary: one offset more than rows
  bool large_offsets = false;         // int64 offsets (large_string, large_binary) instead of int32
  int64_t offset = 0;
};

// A string or binary value that lives elsewhere.
struct BytesRef {
  const uint8_t* data = nullptr;
  size_t size = 0;

  // Unsigned bytes, then length: Spark's order of strings and binaries.
  std::strong_ordering operator<=>(const BytesRef& other) const {
    const size_t common = std::min(size, other.size);
    const int order = common == 0 ? 0 : std::memcmp(data, other.data, common);
    return order != 0 ? order <=> 0 : size <=> other.size;
  }
  bool operator==(const BytesRef& other) const { return (*this <=> other) == 0; }
};

// One column of a batch (or of a decoded segment) as the core's loops read it.
struct BatchColumn {
  Type type;
  const uint8_t* valid = nullptr;   // one byte a row, 1 valid, 0 null; null pointer: all rows are valid
  const uint8_t* values = nullptr;  // type.width() bytes a row, any alignment; string and binary: an array of BytesRef
};

// A column of results, owned. Values of null rows are zero (or empty).
struct ResultColumn {
  Type type;
  std::vector<uint8_t> valid;    // one byte a row; empty: all rows are valid
  std::vector<uint8_t> values;   // type.width() bytes a row, so a decimal of up to 18 digits is an int64; string and
                                 // binary: their bytes
  std::vector<int32_t> offsets;  // string and binary: one more than rows
};

}  // namespace pyslash
