// The words of a schema of records, as pyslash/records.h has them.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pyslash/error.h"
#include "pyslash/types.h"

namespace pyslash {

class SchemaWords {
 public:
  explicit SchemaWords(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    if (rest_.empty()) fail("it ends too early");
    const size_t end = std::min(rest_.find_first_of(" \n"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  void expect(std::string_view wanted) {
    if (const auto found = next(); found != wanted) fail(quoted(found) + " is not " + quoted(wanted));
  }
  int64_t number() { return number_of(next()); }
  // Nothing if it is '-'.
  std::optional<int64_t> number_or_dash() {
    const auto word = next();
    return word == "-" ? std::nullopt : std::optional(number_of(word));
  }
  // From pairs of hexadecimal digits.
  std::string bytes() { return bytes_of(next()); }
  std::string bytes_or_dash() {
    const auto word = next();
    return word == "-" ? std::string() : bytes_of(word);
  }
  // Of a column that is read from text.
  static Type type_of(std::string_view word) {
    const Type type = Type::parse(word);
    if (type.id == TypeId::binary || type.precision > max_int64_digits) fail(type.name() + " is not read from text");
    return type;
  }
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(Status::invalid_plan, "a schema of records: " + what);
  }
  static std::string quoted(std::string_view word) { return std::string("'").append(word).append("'"); }

 private:
  static int64_t number_of(std::string_view word, int base = 10) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (error != std::errc() || end != word.data() + word.size()) fail(quoted(word) + " is no number");
    return value;
  }
  static std::string bytes_of(std::string_view digits) {
    if (digits.size() % 2 != 0) fail("half a byte");
    std::string bytes;
    for (size_t i = 0; i < digits.size(); i += 2) bytes += static_cast<char>(number_of(digits.substr(i, 2), 16));
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace pyslash
