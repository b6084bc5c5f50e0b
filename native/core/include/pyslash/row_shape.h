// Whether bytes of a file or a peer are a row as Spark lays it out (UnsafeRow), of columns of given types. Spark reads
// a row without a check, wherever its fields point; so that is asked first, of the copy that Spark is to see.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash {

class RowShape {
 public:
  // Types in words, one behind the other: `row <n> <type>..`, `array <type>`, `map <type> <type>`; `fixed <bytes>` of
  // 0, 1, 2, 4 or 8, which each element of an array takes; `bytes`, of any content; `decimal` of more than 18 digits,
  // `interval`, `variant`. Status::invalid_plan if the text is no row.
  static RowShape parse(std::string_view text);
  // Of bytes that nobody reads as a row.
  static RowShape any() { return {}; }

  const std::string& text() const { return text_; }
  // Status::corrupt_block if a field, at whatever depth, leaves what it is a part of. It takes as long as there are
  // fields of variable length: those of a row may not overlap so much that they add up to more than the row.
  void check(Bytes row) const;

 private:
  enum class Kind : uint8_t { fixed, bytes, decimal, interval, variant, row, array, map };
  struct Node {
    Kind kind = Kind::fixed;
    uint8_t width = 8;               // of an element of an array
    uint32_t fields = 0;             // of a row
    std::vector<uint32_t> variable;  // of a row: the places of the fields of variable length
    std::vector<Node> children;      // of a row: of these; of an array, its elements; of a map, two arrays
  };
  class Parser;

  static void check(const Node& node, Bytes value);
  static void check_row(const Node& node, Bytes row);
  static uint64_t check_array(const Node& node, Bytes array);
  static void check_map(const Node& node, Bytes map);
  // The value that `word`, an offset and a size, points to. `left` are the bytes that fields may still have.
  static void check_field(const Node& node, uint64_t word, Bytes whole, uint64_t& left);

  std::string text_;
  Node root_{Kind::bytes, 8, 0, {}, {}};
};

}  // namespace pyslash
