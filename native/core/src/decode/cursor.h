// Reading text of JSON token by token. Every function returns whether the text is certainly what it looks for; after a
// false the cursor stands anywhere.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "decode/numbers.h"
#include "pyslash/bytes.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace pyslash {

// A string between its quotes.
struct JsonString {
  std::string_view raw;
  bool escaped = false;  // it has a backslash
};

class JsonCursor {
 public:
  static constexpr size_t most_taken = 64;  // bytes that `take` compares

  // Bytes behind the text may be looked at up to `readable`, whatever they are.
  JsonCursor(Bytes text, const uint8_t* readable)
      : at_(text.data()), end_(text.data() + text.size()), readable_(readable) {}
  explicit JsonCursor(Bytes text) : JsonCursor(text, text.data() + text.size()) {}

  const uint8_t* at() const { return at_; }
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
  // These bytes, of which `most_taken` can be read; none are never here.
  bool take(const uint8_t* wanted, size_t size);
  bool literal(std::string_view word);
  // At its opening quote; its bytes are UTF-8 and its escapes JSON's.
  bool string(JsonString& found);
  // The same for the name of a member.
  bool name(JsonString& found);
  bool number(Number& found) { return found.read(at_, end_); }
  // Any value.
  bool skip(size_t depth);

 private:
  bool skip_members(size_t depth, char close, bool named);
  // On to a quote, a backslash, a control character or one that is not ASCII, or to the end or a few bytes beyond it.
  void find_special();

  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* readable_;
};

inline bool JsonCursor::take(const uint8_t* wanted, size_t size) {
  if (size == 0 || static_cast<size_t>(end_ - at_) < size) return false;
#ifdef __AVX2__
  static_assert(most_taken >= 32);
  if (size <= 32 && readable_ - at_ >= 32) {
    const __m256i here = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at_));
    const __m256i there = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(wanted));
    const auto equal = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(here, there)));
    if (static_cast<size_t>(std::countr_one(equal)) < size) return false;
    at_ += size;
    return true;
  }
#endif
  if (std::memcmp(at_, wanted, size) != 0) return false;
  at_ += size;
  return true;
}

inline void JsonCursor::find_special() {
#ifdef __AVX2__
  const __m256i quote = _mm256_set1_epi8('"');
  const __m256i backslash = _mm256_set1_epi8('\\');
  const __m256i space = _mm256_set1_epi8(' ');
  while (readable_ - at_ >= 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at_));
    // As signed bytes those beyond ASCII are less than a blank, too.
    const __m256i special =
        _mm256_or_si256(_mm256_cmpgt_epi8(space, bytes),
                        _mm256_or_si256(_mm256_cmpeq_epi8(bytes, quote), _mm256_cmpeq_epi8(bytes, backslash)));
    const auto found = static_cast<uint32_t>(_mm256_movemask_epi8(special));
    at_ += found == 0 ? 32 : std::countr_zero(found);
    if (found != 0 || at_ >= end_) return;
  }
#endif
  // The high bit of a byte of `special` is set if the byte is a special one; by borrows perhaps also that of a byte
  // above such a one. The first byte of the text is the lowest.
  static_assert(std::endian::native == std::endian::little);
  constexpr uint64_t each_byte = 0x0101010101010101;
  constexpr uint64_t high_bits = 0x8080808080808080;
  while (end_ - at_ >= 8) {
    const auto word = load<uint64_t>(at_);
    const uint64_t quotes = (word ^ each_byte * '"') - each_byte;
    const uint64_t backslashes = (word ^ each_byte * '\\') - each_byte;
    const uint64_t special = (quotes | backslashes | (word - each_byte * 0x20) | word) & high_bits;
    at_ += special == 0 ? 8 : std::countr_zero(special) / 8;
    if (special != 0) break;
  }
  while (at_ < end_ && *at_ != '"' && *at_ != '\\' && *at_ >= 0x20 && *at_ < 0x80) ++at_;
}

// Appends what an escaped string stands for; false for half of a surrogate pair. `Target` takes bytes by push_back.
bool unescape(std::string_view raw, std::string& target);

}  // namespace pyslash
