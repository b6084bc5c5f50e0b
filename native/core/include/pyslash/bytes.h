// Reading and writing values at any address: pages, Arrow buffers and blocks promise no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pyslash {

using Bytes = std::span<const uint8_t>;

// Everything in a block starts at a multiple of this: a cache line, and what Arrow recommends.
inline constexpr size_t block_alignment = 64;

constexpr size_t align_up(size_t value, size_t alignment = block_alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

template <typename T>
T load(const uint8_t* at, size_t index = 0) {
  T value;
  std::memcpy(&value, at + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(uint8_t* at, size_t index, T value) {
  std::memcpy(at + index * sizeof(T), &value, sizeof(T));
}

}  // namespace pyslash
