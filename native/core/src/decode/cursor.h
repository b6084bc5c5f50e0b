// Reading text of JSON token by token. Every function returns whether the text is certainly what it looks for; after a
// false the cursor stands anywhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "pyslash/bytes.h"

namespace pyslash {

// A string between its quotes.
struct JsonString {
  std::string_view raw;
  bool escaped = false;  // it has a backslash
};

// A number as it is written, [-]digits[.digits][e[+-]digits] without leading zeros.
struct JsonNumber {
  std::string_view text;
  size_t digits = 0;    // before the point
  size_t fraction = 0;  // digits behind the point
  bool negative = false;
  bool has_point = false;
  bool has_exponent = false;

  bool is_integer() const { return !has_point && !has_exponent; }
  // The digits without sign and point; up to 18 of them.
  uint64_t unscaled() const;
};

class JsonCursor {
 public:
  explicit JsonCursor(Bytes text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool at_end() const { return at_ == end_; }
  // The byte here; 0, which no JSON has, at the end.
  uint8_t peek() const { return at_ == end_ ? 0 : *at_; }
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char wanted) {
    if (at_ == end_ || *at_ != static_cast<uint8_t>(wanted)) return false;
    ++at_;
    return true;
  }
  bool literal(std::string_view word);
  // At its opening quote; its bytes are UTF-8 and its escapes JSON's.
  bool string(JsonString& found);
  // The same for the name of a member.
  bool name(JsonString& found);
  bool number(JsonNumber& found);
  // Any value.
  bool skip(size_t depth);

 private:
  bool skip_members(size_t depth, char close, bool named);
  std::string_view digits();

  const uint8_t* at_;
  const uint8_t* end_;
};

// Appends what an escaped string stands for; false for half of a surrogate pair. `Target` takes bytes by push_back.
bool unescape(std::string_view raw, std::string& target);

}  // namespace pyslash
