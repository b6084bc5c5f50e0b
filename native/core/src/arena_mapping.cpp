#include "arena_mapping.h"

#include <sys/mman.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "pyslash/error.h"

namespace pyslash {

ArenaMapping::ArenaMapping(int fd, uint64_t size) : size_(size) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    throw Error(Status::internal, "cannot map an arena of " + std::to_string(size) + " bytes: " + std::strerror(errno));
  }
  data_ = static_cast<uint8_t*>(address);
}

ArenaMapping::~ArenaMapping() { ::munmap(data_, size_); }

namespace {

// Until then. In slices: the wall clock, which pthread_mutex_timedlock goes by, may be set meanwhile.
int lock_until(pthread_mutex_t& mutex, std::chrono::steady_clock::time_point deadline) {
  constexpr long slice_nanoseconds = 100'000'000;
  for (;;) {
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += slice_nanoseconds;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    // Not pthread_mutex_clocklock: thread sanitizers do not know that one.
    const int result = ::pthread_mutex_timedlock(&mutex, &until);
    if (result != ETIMEDOUT || std::chrono::steady_clock::now() >= deadline) return result;
  }
}

}  // namespace

ArenaLock::ArenaLock(const ArenaMapping& mapping, int64_t most_milliseconds) : mutex_(mapping.header().mutex) {
  int result = ::pthread_mutex_trylock(&mutex_);
  if (result == EBUSY) {
    result = lock_until(mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(most_milliseconds));
  }
  if (result == EOWNERDEAD) {
    ::pthread_mutex_consistent(&mutex_);
  } else if (result == ETIMEDOUT) {
    throw Error(Status::arena_busy,
                "a process has held the lock of the arena for more than " + std::to_string(most_milliseconds) +
                    " ms: one of this executor's is stopped within a microsecond of work. Let it go on (kill -CONT), " +
                    "or end it: its lock is then taken over");
  } else if (result != 0) {
    throw Error(Status::internal, std::string("cannot lock the arena: ") + std::strerror(result));
  }
}

ArenaLock::~ArenaLock() { ::pthread_mutex_unlock(&mutex_); }

void initialise_lock(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int result = ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  if (result != 0)
    throw Error(Status::internal, std::string("cannot set up the arena's lock: ") + std::strerror(result));
}

}  // namespace pyslash
