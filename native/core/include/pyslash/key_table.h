// Key -> dense group id: open addressing with linear probing, a batch at a time.
//
// Where a key goes in a table depends on a random number of this process: keys that were chosen so that their hashes
// have the same lower bits would make one long run of slots otherwise, and each insertion walk all of it.
//
// Several tables may share one GroupKeys (the accumulator has a table a pane): ids are then dense over all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/group_keys.h"

namespace pyslash {

class KeyTable {
 public:
  static constexpr uint32_t absent = UINT32_MAX;

  KeyTable();

  // groups[row] = id of the row's key, for rows [0, count); keys not seen before are appended to `keys`.
  // Every call must pass the same GroupKeys.
  void find_or_insert(const EncodedKeys& encoded, size_t count, GroupKeys& keys, uint32_t* groups);
  // The same for the given rows only; other elements of `groups` stay.
  void find_or_insert(const EncodedKeys& encoded, std::span<const uint32_t> rows, GroupKeys& keys, uint32_t* groups);
  // groups[row] = id of the row's key, or `absent`, for rows [0, count).
  void find(const EncodedKeys& encoded, size_t count, const GroupKeys& keys, uint32_t* groups) const;

  size_t size() const { return used_ + (null_group_ != absent ? 1 : 0); }
  // Keys that fit before the table grows.
  size_t capacity() const { return slots_.size() / 2; }
  // Forgets all keys but keeps the memory.
  void clear();
  // Holds these groups' keys, which differ, and no others.
  void restore(const GroupKeys& keys, std::span<const uint32_t> groups);

 private:
  struct Slot {
    uint64_t hash;
    uint32_t group;
    uint32_t unused;
  };
  static_assert(sizeof(Slot) == 16);  // four a cache line, never across two

  // `Table` and `Keys` are const where keys that are not there stay so.
  template <KeyForm form, bool nullable, typename Table, typename Rows, typename Keys>
  static void probe(Table& table, const EncodedKeys& encoded, Rows rows, size_t count, Keys& keys, uint32_t* groups);
  template <typename Table, typename Rows, typename Keys>
  static void dispatch(Table& table, const EncodedKeys& encoded, Rows rows, size_t count, Keys& keys, uint32_t* groups);
  size_t home(uint64_t hash) const;
  void make(size_t slots);  // a power of two, all empty
  void place(const Slot& slot);
  void grow();

  std::vector<Slot> slots_;
  int shift_ = 0;  // 64 less the binary logarithm of their number
  size_t used_ = 0;
  uint32_t null_group_ = absent;
};

}  // namespace pyslash
