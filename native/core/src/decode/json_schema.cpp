#include "decode/json_schema.h"

#include <charconv>

#include "pyslash/error.h"

namespace pyslash {
namespace {

constexpr size_t max_depth = 16;

class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    if (rest_.empty()) fail("it ends too early");
    const size_t end = std::min(rest_.find_first_of(" \n"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  void expect(std::string_view wanted) {
    if (const auto found = next(); found != wanted)
      fail("'" + std::string(found) + "' is not '" + std::string(wanted) + "'");
  }
  int64_t number(std::string_view word, int base = 10) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (error != std::errc() || end != word.data() + word.size()) fail("'" + std::string(word) + "' is no number");
    return value;
  }
  std::string name() {
    const std::string_view digits = next();
    if (digits.size() % 2 != 0) fail("a name of half a byte");
    std::string name;
    for (size_t i = 0; i < digits.size(); i += 2) name += static_cast<char>(number(digits.substr(i, 2), 16));
    return name;
  }
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(Status::invalid_plan, "a schema of JSON: " + what);
  }

 private:
  std::string_view rest_;
};

JsonField parse_field(Words& words, size_t& size, size_t depth) {
  if (depth == max_depth) Words::fail("it is too deep");
  JsonField field;
  field.number = size++;
  if (const auto word = words.next(); word == "struct") {
    field.kind = JsonKind::record;
    field.name = words.name();
    const int64_t fields = words.number(words.next());
    for (int64_t i = 0; i < fields; ++i) field.fields.push_back(parse_field(words, size, depth + 1));
    return field;
  } else if (word != "field") {
    Words::fail("'" + std::string(word) + "' is no column");
  }
  const std::string_view type = words.next();
  if (type == "none") {
    field.kind = JsonKind::none;
    words.expect("-");
    return field;
  }
  if (type == "other") {
    field.kind = JsonKind::other;
  } else {
    field.type = Type::parse(type);
    if (field.type.id == TypeId::binary || field.type.precision > max_int64_digits) {
      Words::fail(field.type.name() + " is not read from JSON");
    }
  }
  field.name = words.name();
  return field;
}

}  // namespace

JsonSchema JsonSchema::parse(std::string_view text) {
  Words words(text);
  JsonSchema schema;
  words.expect("pyslash-json");
  words.expect("1");
  words.expect("zone");
  if (const auto zone = words.next(); zone != "-") schema.zone_seconds = words.number(zone);
  while (!words.at_end()) schema.fields.push_back(parse_field(words, schema.size, 0));
  return schema;
}

}  // namespace pyslash
