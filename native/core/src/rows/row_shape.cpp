#include "pyslash/row_shape.h"

#include <string>
#include <utility>

#include "decode/schema_words.h"
#include "pyslash/error.h"

namespace pyslash {
namespace {

constexpr size_t max_depth = 256;
constexpr int64_t max_fields = 1 << 20;
constexpr uint64_t word_bytes = 8;

[[noreturn]] void fail(const char* what) {
  throw Error(Status::corrupt_block, std::string("bytes that are no row of Spark's: ") + what);
}

// Of so many bits, a word each 64.
constexpr uint64_t bits_bytes(uint64_t fields) { return (fields + 63) / 64 * word_bytes; }

bool is_null(const uint8_t* bits, uint64_t field) { return (bits[field / 8] >> (field % 8) & 1) != 0; }

}  // namespace

class RowShape::Parser {
 public:
  explicit Parser(std::string_view text) : words_(text) {}

  Node row() {
    Node root = node(0);
    if (root.kind != Kind::row || !words_.at_end()) SchemaWords::fail("it is not that of one row");
    return root;
  }

 private:
  Node node(size_t depth) {
    if (depth == max_depth) SchemaWords::fail("it is too deep");
    const std::string_view word = words_.next();
    if (word == "row") return fields(depth);
    Node made;
    if (word == "fixed") {
      const int64_t width = words_.number();
      if (width != 0 && width != 1 && width != 2 && width != 4 && width != 8) SchemaWords::fail("no type is so wide");
      made.width = static_cast<uint8_t>(width);
    } else if (word == "array") {
      return array(depth);
    } else if (word == "map") {
      made.kind = Kind::map;
      for (int i = 0; i < 2; ++i) made.children.push_back(array(depth));
    } else if (word == "bytes") {
      made.kind = Kind::bytes;
    } else if (word == "decimal") {
      made.kind = Kind::decimal;
    } else if (word == "interval") {
      made.kind = Kind::interval;
    } else if (word == "variant") {
      made.kind = Kind::variant;
    } else {
      SchemaWords::fail(SchemaWords::quoted(word) + " is no type");
    }
    return made;
  }

  Node array(size_t depth) {
    Node made;
    made.kind = Kind::array;
    made.children.push_back(node(depth + 1));
    return made;
  }

  Node fields(size_t depth) {
    Node made;
    made.kind = Kind::row;
    const int64_t count = words_.number();
    if (count < 0 || count > max_fields) SchemaWords::fail("no row has so many fields");
    made.fields = static_cast<uint32_t>(count);
    for (uint32_t i = 0; i < made.fields; ++i) {
      Node field = node(depth + 1);
      if (field.kind == Kind::fixed) continue;
      made.variable.push_back(i);
      made.children.push_back(std::move(field));
    }
    return made;
  }

  SchemaWords words_;
};

RowShape RowShape::parse(std::string_view text) {
  RowShape shape;
  shape.text_ = text;
  shape.root_ = Parser(text).row();
  return shape;
}

void RowShape::check(Bytes row) const {
  if (row.size() > INT32_MAX) fail("it is longer than 2 GiB");
  check(root_, row);
}

void RowShape::check(const Node& node, Bytes value) {
  switch (node.kind) {
    case Kind::fixed:
    case Kind::bytes:
      return;
    case Kind::decimal:
      if (value.empty() || value.size() > 16) fail("a decimal has 1 to 16 bytes");
      return;
    case Kind::interval:
      if (value.size() != 16) fail("an interval has 16 bytes");
      return;
    case Kind::variant:
      if (value.size() < 4 || load<uint32_t>(value.data()) > value.size() - 4) fail("a variant ends too early");
      return;
    case Kind::row:
      return check_row(node, value);
    case Kind::array:
      check_array(node, value);
      return;
    case Kind::map:
      return check_map(node, value);
  }
}

void RowShape::check_field(const Node& node, uint64_t word, Bytes whole, uint64_t& left) {
  const uint64_t offset = word >> 32, size = word & UINT32_MAX;
  if (offset > whole.size() || size > whole.size() - offset) fail("a field points outside of it");
  if (size > left) fail("its fields overlap");
  left -= size;
  check(node, whole.subspan(offset, size));
}

// Null bits, a word for each field, and what those of variable length point to.
void RowShape::check_row(const Node& node, Bytes row) {
  const uint64_t bits = bits_bytes(node.fields);
  if (row.size() % word_bytes != 0) fail("it does not end with a word");
  if (row.size() < bits + node.fields * word_bytes) fail("it ends within its fields");
  uint64_t left = row.size();
  for (size_t i = 0; i < node.variable.size(); ++i) {
    const uint32_t field = node.variable[i];
    if (is_null(row.data(), field)) continue;
    check_field(node.children[i], load<uint64_t>(row.data() + bits, field), row, left);
  }
}

// The number of elements, null bits, the elements or words that point to them. Gives the number.
uint64_t RowShape::check_array(const Node& node, Bytes array) {
  if (array.size() < word_bytes) fail("an array ends too early");
  const auto count = load<uint64_t>(array.data());
  if (count > INT32_MAX) fail("an array of no such number of elements");
  const Node& element = node.children[0];
  const uint64_t head = word_bytes + bits_bytes(count);
  const uint64_t width = element.kind == Kind::fixed ? element.width : word_bytes;
  if (array.size() < head + count * width) fail("an array ends within its elements");
  if (element.kind == Kind::fixed) return count;
  uint64_t left = array.size();
  for (uint64_t i = 0; i < count; ++i) {
    if (is_null(array.data() + word_bytes, i)) continue;
    check_field(element, load<uint64_t>(array.data() + head, i), array, left);
  }
  return count;
}

// The size of the array of keys, that array, and the one of values.
void RowShape::check_map(const Node& node, Bytes map) {
  if (map.size() < word_bytes) fail("a map ends too early");
  const auto keys = load<uint64_t>(map.data());
  if (keys > map.size() - word_bytes) fail("the keys of a map point outside of it");
  const Bytes both = map.subspan(word_bytes);
  if (check_array(node.children[0], both.first(keys)) != check_array(node.children[1], both.subspan(keys))) {
    fail("a map has more keys than values, or fewer");
  }
}

}  // namespace pyslash
