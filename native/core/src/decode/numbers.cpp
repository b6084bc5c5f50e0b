#include "decode/numbers.h"

namespace pyslash {
namespace {

size_t read_digits(const uint8_t*& at, const uint8_t* end, uint64_t& value) {
  const uint8_t* const begin = at;
  for (; at != end && is_digit(*at); ++at) value = value * 10 + (*at - '0');
  return static_cast<size_t>(at - begin);
}

bool take(const uint8_t*& at, const uint8_t* end, char wanted) {
  if (at == end || *at != static_cast<uint8_t>(wanted)) return false;
  ++at;
  return true;
}

}  // namespace

bool Number::read(const uint8_t*& at, const uint8_t* end) {
  constexpr size_t longest = 100;  // Jackson's own bound is 1,000
  const uint8_t* const begin = at;
  *this = {};
  negative = take(at, end, '-');
  const bool leads_with_zero = at != end && *at == '0';
  digits = read_digits(at, end, unscaled);
  if (digits == 0 || (leads_with_zero && digits > 1)) return false;
  if (take(at, end, '.')) {
    has_point = true;
    fraction = read_digits(at, end, unscaled);
    if (fraction == 0) return false;
  }
  if (take(at, end, 'e') || take(at, end, 'E')) {
    uint64_t exponent = 0;
    has_exponent = true;
    if (!take(at, end, '+')) take(at, end, '-');
    if (read_digits(at, end, exponent) == 0) return false;
  }
  text = {reinterpret_cast<const char*>(begin), static_cast<size_t>(at - begin)};
  return text.size() <= longest;
}

}  // namespace pyslash
