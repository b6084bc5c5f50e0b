// The hash of keys. Blocks are cut by it, so it is part of the block format: changing it is a new format version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyslash {

// A bijection of 64 bits (MurmurHash3's finalizer): the hash of a packed 64-bit key identifies the key.
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

constexpr uint64_t unmix64(uint64_t x) {
  x ^= x >> 33;
  x *= 0x9cb4b2f8129337dbULL;
  x ^= x >> 33;
  x *= 0x4f74430c22a54005ULL;
  x ^= x >> 33;
  return x;
}

static_assert(unmix64(mix64(0x0123456789abcdefULL)) == 0x0123456789abcdefULL);

constexpr uint64_t hash_pair(uint64_t low, uint64_t high) { return mix64(low ^ mix64(high + 0x9e3779b97f4a7c15ULL)); }

uint64_t hash_bytes(const uint8_t* data, size_t size);

// Blocks are cut by the upper half of the hash; hash tables place by all of it and a secret.
constexpr uint32_t prefix_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace pyslash
