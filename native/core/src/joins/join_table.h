// The rows of one side of a join that are kept: found by their keys, and dropped by the watermark that evicts them. To
// drop rows costs what is dropped, not what stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "pyslash/column.h"
#include "update/chunks.h"

namespace pyslash {

// What is kept of a row, in front of its bytes. Those of equal keys are a list.
struct KeptRow {
  KeptRow* next;
  KeptRow* previous;
  uint64_t hash;
  int64_t expires;  // as JoinColumn has them
  int64_t epoch;
  int64_t evicted;
  uint32_t key_bytes;
  uint32_t row_bytes;
  int64_t matched;  // the epoch in which a row of the other side was first found to match; `never`

  static constexpr int64_t never = INT64_MAX;
  static constexpr int64_t passing = INT64_MIN;  // of `expires`: new rows of the other side do not find it
  // A row is aligned to 8 bytes, and its key follows it.
  const uint8_t* row() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  BytesRef key() const { return {row() + (row_bytes + 7) / 8 * 8, key_bytes}; }
};
// Whoever has a row's address finds its size and `matched` in front of it: io.pyslash.join.KeptRow.
static_assert(sizeof(KeptRow) == 64 && offsetof(KeptRow, matched) == 56 && offsetof(KeptRow, row_bytes) == 52);

class JoinTable {
 public:
  // Rows that expire within the same so many microseconds are dropped together.
  explicit JoinTable(int64_t width_us);

  // All but next, previous and sizes of `row` is taken over.
  KeptRow* insert(const KeptRow& row, BytesRef key, BytesRef bytes);
  // The first row of a key, or null. Those of a list that have expired may still be there.
  const KeptRow* find(uint64_t hash, BytesRef key) const;
  // Ahead of a search for a key with this hash: its slot, and, when that is there, the first row with its key.
  void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[place(hash)]); }
  void prefetch_row(uint64_t hash) const {
    const KeptRow* row = slots_[place(hash)].first;
    __builtin_prefetch(row);
    __builtin_prefetch(row + 1);
  }
  // Drops rows that expire by then; some may stay until later ones go.
  void evict(int64_t until_us);
  void clear();
  size_t rows() const { return rows_; }
  // That the rows take, in bytes.
  uint64_t memory() const {
    uint64_t bytes = 0;
    for (const auto& [number, bucket] : buckets_) bytes += bucket.memory.room();
    return bytes;
  }

  // The rows, by when they expire: the bucket, and the number in it.
  struct Position {
    int64_t bucket = INT64_MIN;
    size_t row = 0;
  };
  // The next row of those that expire by then, some of which expire later yet; null at the end.
  KeptRow* next(Position& position, int64_t until_us) const;

 private:
  struct Slot {
    uint64_t hash;
    KeptRow* first;
  };
  struct Bucket {
    Chunks memory{256};  // there may be hundreds of thousands, of one row each
    std::vector<KeptRow*> rows;
  };
  size_t place(uint64_t hash) const;
  // The slot of a key, or the empty one where it belongs.
  size_t slot_of(uint64_t hash, BytesRef key) const;
  int64_t bucket_of(int64_t expires_us) const;
  void unlink(const KeptRow& row);
  void empty(size_t slot);
  void make(size_t slots);
  void grow();

  int64_t width_;
  std::map<int64_t, Bucket> buckets_;
  std::vector<Slot> slots_;
  int shift_ = 0;
  size_t used_ = 0;
  size_t rows_ = 0;
};

}  // namespace pyslash
