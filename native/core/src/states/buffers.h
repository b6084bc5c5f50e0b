// What the state columns share: fixed-width values to and from a segment's buffers, where an absent buffer is all zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash {

// Counts of a forged block may add up to anything; a wrong answer is all that they get.
inline int64_t wrapped_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <typename T>
uint64_t length_unless_zero(const std::vector<T>& values, std::span<const uint32_t> groups) {
  const bool zero =
      values.empty() || std::all_of(groups.begin(), groups.end(), [&](uint32_t g) { return values[g] == T{}; });
  return zero ? 0 : groups.size() * sizeof(T);
}

template <typename T>
void gather_into(const std::vector<T>& values, std::span<const uint32_t> groups, std::span<uint8_t> out) {
  if (out.empty()) return;
  for (size_t i = 0; i < groups.size(); ++i) store(out.data(), i, values[groups[i]]);
}

template <typename T>
bool fits_values(Bytes buffer, size_t rows) {
  return buffer.empty() || buffer.size() == rows * sizeof(T);
}

// A bitmap of which groups have a value; absent: all have.
inline size_t bitmap_bytes(size_t rows) { return (rows + 7) / 8; }
inline bool fits_bitmap(Bytes bitmap, size_t rows) { return bitmap.empty() || bitmap.size() == bitmap_bytes(rows); }
inline bool is_present(Bytes bitmap, size_t row) { return bitmap.empty() || (bitmap[row / 8] >> (row % 8) & 1) != 0; }

}  // namespace pyslash
