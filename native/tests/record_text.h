// Text of records and of their schemas.
#pragma once

#include <string>
#include <string_view>

#include "pyslash/bytes.h"

namespace pyslash {

inline std::string hex(std::string_view name) {
  std::string digits;
  for (const char byte : name) {
    digits += "0123456789abcdef"[static_cast<uint8_t>(byte) >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

inline Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

}  // namespace pyslash
