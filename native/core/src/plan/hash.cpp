#include "pyslash/hash.h"

#include "pyslash/bytes.h"

namespace pyslash {

// Eight bytes a step through hash_pair's mixing; the length goes in first, so that zero padding cannot collide.
uint64_t hash_bytes(const uint8_t* data, size_t size) {
  uint64_t hash = mix64(size + 0x9e3779b97f4a7c15ULL);
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    hash = (hash ^ load<uint64_t>(data + at)) * 0x9fb21c651e98df25ULL;
    hash ^= hash >> 32;
  }
  if (at < size) {
    uint64_t rest = 0;
    std::memcpy(&rest, data + at, size - at);
    hash = (hash ^ rest) * 0x9fb21c651e98df25ULL;
    hash ^= hash >> 32;
  }
  return mix64(hash);
}

}  // namespace pyslash
