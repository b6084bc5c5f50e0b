// Where the search for a hash begins in a table: keys that were chosen so that their hashes have the same lower bits
// would make one long run of slots otherwise, and each insertion walk all of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyslash {

// A random number of this process.
extern const uint64_t table_secret;

inline constexpr size_t first_slots = 64;  // of a table without entries

// The slot of a table of 2^(64 - shift): the upper bits of a product with a secret number depend on all bits, and no
// two hashes share them for more than two of so many numbers as there are slots (multiply-shift hashing).
inline size_t table_place(uint64_t hash, int shift) { return (hash * table_secret) >> shift; }

}  // namespace pyslash
