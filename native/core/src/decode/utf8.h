// UTF-8 as RFC 3629 has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pyslash/bytes.h"

namespace pyslash {

// The bytes of the character that starts here, which is not ASCII; 0 if it is not UTF-8.
size_t utf8_size(const uint8_t* at, const uint8_t* end);

inline bool is_utf8(Bytes text) {
  constexpr uint64_t high_bits = 0x8080808080808080;
  const uint8_t* at = text.data();
  const uint8_t* const end = at + text.size();
  while (true) {
    while (end - at >= 8 && (load<uint64_t>(at) & high_bits) == 0) at += 8;
    while (at != end && *at < 0x80) ++at;
    if (at == end) return true;
    const size_t size = utf8_size(at, end);
    if (size == 0) return false;
    at += size;
  }
}

}  // namespace pyslash
