// What lies in an arena's first pages. See arena.h for the picture; every process of the host maps the same bytes.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "pyslash/arena.h"

namespace pyslash {

inline constexpr uint64_t arena_magic = 0x0141524148534c53;  // "SLSHARA\1", stored last when an arena is laid out
inline constexpr uint32_t arena_version = 1;

struct ArenaHeader {
  uint64_t magic;
  uint32_t version;
  int32_t creator_pid;
  uint64_t size;
  Id128 incarnation;
  // Entries at and beyond this index were never used. A hint that only grows; it saves reading the whole table.
  uint64_t touched_entries;
  alignas(64) pthread_mutex_t mutex;
};
static_assert(sizeof(ArenaHeader) <= Arena::header_bytes);

struct ArenaEntry {
  uint64_t offset;
  uint64_t length;
  uint32_t state;  // BlockState; stored last (release)
  int32_t owner_pid;
  uint64_t owner_start;
  Id128 query;
  int64_t epoch;
  uint64_t reserved;
};
static_assert(sizeof(ArenaEntry) == 64);

inline BlockState state_of(ArenaEntry& entry) {
  return static_cast<BlockState>(std::atomic_ref(entry.state).load(std::memory_order_acquire));
}

inline void set_state(ArenaEntry& entry, BlockState state) {
  std::atomic_ref(entry.state).store(static_cast<uint32_t>(state), std::memory_order_release);
}

}  // namespace pyslash
