#include "decode/cursor.h"

#include <string>

#include "decode/utf8.h"

namespace pyslash {
namespace {

int hex_digit(uint8_t byte) {
  if (is_digit(byte)) return byte - '0';
  const uint8_t lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

void append_utf8(uint32_t character, std::string& target) {
  const auto put = [&](uint32_t byte) { target += static_cast<char>(byte); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xc0 | character >> 6);
    put(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  } else {
    put(0xf0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3f));
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  }
}

uint32_t utf16_unit(std::string_view digits) {
  uint32_t unit = 0;
  for (const char digit : digits) unit = unit << 4 | static_cast<uint32_t>(hex_digit(static_cast<uint8_t>(digit)));
  return unit;
}

}  // namespace

bool JsonCursor::literal(std::string_view word) {
  if (static_cast<size_t>(end_ - at_) < word.size() || std::memcmp(at_, word.data(), word.size()) != 0) return false;
  at_ += word.size();
  return true;
}

bool JsonCursor::string(JsonString& found) {
  if (!take('"')) return false;
  const uint8_t* const begin = at_;
  found.escaped = false;
  while (true) {
    find_special();
    if (at_ >= end_) return false;
    if (*at_ == '"') {
      found.raw = {reinterpret_cast<const char*>(begin), static_cast<size_t>(at_ - begin)};
      ++at_;
      return true;
    }
    if (*at_ == '\\') {
      found.escaped = true;
      if (end_ - at_ < 2) return false;
      const uint8_t kind = at_[1];
      at_ += 2;
      if (kind == 'u') {
        for (size_t i = 0; i < 4; ++i, ++at_) {
          if (at_ == end_ || hex_digit(*at_) < 0) return false;
        }
      } else if (std::string_view("\"\\/bfnrt").find(static_cast<char>(kind)) == std::string_view::npos) {
        return false;
      }
    } else if (*at_ < 0x20) {
      return false;
    } else {
      while (at_ != end_ && *at_ >= 0x80) {
        const size_t size = utf8_size(at_, end_);
        if (size == 0) return false;
        at_ += size;
      }
    }
  }
}

bool JsonCursor::name(JsonString& found) {
  constexpr size_t longest = 10'000;  // Jackson's own bound is 50,000
  return string(found) && found.raw.size() <= longest;
}

bool JsonCursor::skip(size_t depth) {
  constexpr size_t deepest = 64;  // Jackson's own bound is 1,000
  if (depth == deepest) return false;
  JsonString string;
  Number number;
  switch (peek()) {
    case '"':
      return this->string(string);
    case '{':
      return skip_members(depth + 1, '}', true);
    case '[':
      return skip_members(depth + 1, ']', false);
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      return literal("null");
    default:
      return this->number(number);
  }
}

bool JsonCursor::skip_members(size_t depth, char close, bool named) {
  ++at_;
  skip_space();
  if (take(close)) return true;
  JsonString name;
  while (true) {
    if (named) {
      if (!this->name(name)) return false;
      skip_space();
      if (!take(':')) return false;
      skip_space();
    }
    if (!skip(depth)) return false;
    skip_space();
    if (take(close)) return true;
    if (!take(',')) return false;
    skip_space();
  }
}

bool unescape(std::string_view raw, std::string& target) {
  constexpr std::string_view kinds = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  for (size_t i = 0; i < raw.size();) {
    const size_t backslash = std::min(raw.find('\\', i), raw.size());
    target.append(raw.substr(i, backslash - i));
    if (backslash == raw.size()) break;
    const char kind = raw[backslash + 1];
    i = backslash + 2;
    if (kind != 'u') {
      target += meanings[kinds.find(kind)];
      continue;
    }
    uint32_t character = utf16_unit(raw.substr(i, 4));
    i += 4;
    if (character >= 0xdc00 && character <= 0xdfff) return false;
    if (character >= 0xd800 && character <= 0xdbff) {
      if (raw.substr(i, 2) != "\\u") return false;
      const uint32_t low = utf16_unit(raw.substr(i + 2, 4));
      if (low < 0xdc00 || low > 0xdfff) return false;
      character = 0x10000 + ((character - 0xd800) << 10 | (low - 0xdc00));
      i += 6;
    }
    append_utf8(character, target);
  }
  return true;
}

}  // namespace pyslash
