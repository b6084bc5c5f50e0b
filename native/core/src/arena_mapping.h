// The mapped file of an arena, unmapped when its last holder lets go, and the lock that lives in it.
#pragma once

#include <span>

#include "arena_layout.h"

namespace pyslash {

class ArenaMapping {
 public:
  ArenaMapping(int fd, uint64_t size);
  ~ArenaMapping();
  ArenaMapping(const ArenaMapping&) = delete;
  ArenaMapping& operator=(const ArenaMapping&) = delete;

  uint8_t* data() const noexcept { return data_; }
  uint64_t size() const noexcept { return size_; }
  ArenaHeader& header() const noexcept { return *reinterpret_cast<ArenaHeader*>(data_); }
  // Every entry that was ever used.
  std::span<ArenaEntry> touched() const noexcept { return table().first(header().touched_entries); }
  std::span<ArenaEntry, Arena::max_blocks> table() const noexcept {
    return std::span<ArenaEntry, Arena::max_blocks>(reinterpret_cast<ArenaEntry*>(data_ + Arena::header_bytes),
                                                    Arena::max_blocks);
  }

 private:
  uint8_t* data_;
  uint64_t size_;
};

// Holds the arena's lock. A holder that died leaves a valid table (states are stored last), so its lock is simply
// taken over. One that has been stopped is waited for, a while: the lock is held for microseconds.
class ArenaLock {
 public:
  // Status::arena_busy if another thread holds it past the deadline.
  explicit ArenaLock(const ArenaMapping& mapping, int64_t most_milliseconds = 10'000);
  ~ArenaLock();
  ArenaLock(const ArenaLock&) = delete;
  ArenaLock& operator=(const ArenaLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

void initialise_lock(pthread_mutex_t& mutex);

}  // namespace pyslash
