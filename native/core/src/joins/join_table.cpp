#include "joins/join_table.h"

#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "keys/table_place.h"
#include "pyslash/bytes.h"
#include "pyslash/window.h"

namespace pyslash {

JoinTable::JoinTable(int64_t width_us) : width_(width_us) { make(first_slots); }

size_t JoinTable::place(uint64_t hash) const { return table_place(hash, shift_); }

int64_t JoinTable::bucket_of(int64_t expires_us) const { return Window::floor_div(expires_us, width_); }

void JoinTable::make(size_t slots) {
  slots_.assign(slots, Slot{0, nullptr});
  shift_ = 64 - std::countr_zero(slots);
}

void JoinTable::clear() {
  buckets_.clear();
  make(first_slots);
  used_ = rows_ = 0;
}

size_t JoinTable::slot_of(uint64_t hash, BytesRef key) const {
  size_t at = place(hash);
  while (slots_[at].first != nullptr && !(slots_[at].hash == hash && slots_[at].first->key() == key)) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return at;
}

const KeptRow* JoinTable::find(uint64_t hash, BytesRef key) const { return slots_[slot_of(hash, key)].first; }

KeptRow* JoinTable::insert(const KeptRow& row, BytesRef key, BytesRef bytes) {
  Bucket& bucket = buckets_[bucket_of(row.expires)];
  const size_t padded = align_up(bytes.size, 8);
  uint8_t* memory = bucket.memory.extend(align_up(sizeof(KeptRow) + padded + key.size, 8));
  auto* kept = new (memory) KeptRow(row);
  kept->key_bytes = static_cast<uint32_t>(key.size);
  kept->row_bytes = static_cast<uint32_t>(bytes.size);
  if (bytes.size != 0) std::memcpy(memory + sizeof(KeptRow), bytes.data, bytes.size);
  if (key.size != 0) std::memcpy(memory + sizeof(KeptRow) + padded, key.data, key.size);
  bucket.rows.push_back(kept);
  Slot& slot = slots_[slot_of(kept->hash, key)];
  kept->previous = nullptr;
  kept->next = slot.first;
  if (slot.first != nullptr) {
    slot.first->previous = kept;
    slot.first = kept;
  } else {
    slot = {kept->hash, kept};
    if (++used_ * 2 > slots_.size()) grow();
  }
  ++rows_;
  return kept;
}

void JoinTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  make(2 * old.size());
  for (const Slot& slot : old) {
    if (slot.first == nullptr) continue;
    size_t at = place(slot.hash);
    while (slots_[at].first != nullptr) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

void JoinTable::evict(int64_t until_us) {
  // A bucket goes when all of it has expired: when the next one begins at or before the first moment that has not.
  while (!buckets_.empty() && buckets_.begin()->first < bucket_of(until_us + 1)) {
    for (const KeptRow* row : buckets_.begin()->second.rows) unlink(*row);
    rows_ -= buckets_.begin()->second.rows.size();
    buckets_.erase(buckets_.begin());
  }
}

void JoinTable::unlink(const KeptRow& row) {
  if (row.next != nullptr) row.next->previous = row.previous;
  if (row.previous != nullptr) {
    row.previous->next = row.next;
    return;
  }
  const size_t at = slot_of(row.hash, row.key());
  slots_[at].first = row.next;
  if (row.next == nullptr) empty(at);
}

// The slots behind an emptied one move up, so that no search ends before its key.
void JoinTable::empty(size_t slot) {
  const size_t mask = slots_.size() - 1;
  --used_;
  for (size_t at = (slot + 1) & mask; slots_[at].first != nullptr; at = (at + 1) & mask) {
    if (((at - place(slots_[at].hash)) & mask) < ((at - slot) & mask)) continue;
    slots_[slot] = slots_[at];
    slots_[at].first = nullptr;
    slot = at;
  }
}

KeptRow* JoinTable::next(Position& position, int64_t until_us) const {
  for (auto bucket = buckets_.lower_bound(position.bucket); bucket != buckets_.end(); ++bucket) {
    if (bucket->first > bucket_of(until_us)) break;
    if (bucket->first != position.bucket) position = {bucket->first, 0};
    if (position.row < bucket->second.rows.size()) return bucket->second.rows[position.row++];
  }
  return nullptr;
}

}  // namespace pyslash
