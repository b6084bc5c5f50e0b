#include "pyslash/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "arena_mapping.h"
#include "expect_error.h"

namespace pyslash {
namespace {

constexpr Id128 incarnation{1, 2, 3};
constexpr Id128 query{7, 7};
constexpr Id128 other_query{8};
constexpr uint64_t kib = 1024;

struct Memfd {
  Memfd() : fd(::memfd_create("arena-test", MFD_CLOEXEC)) {}
  ~Memfd() { ::close(fd); }
  Memfd(const Memfd&) = delete;
  Memfd& operator=(const Memfd&) = delete;
  int fd;
};

class ArenaTest : public ::testing::Test {
 protected:
  static constexpr uint64_t data_bytes = 256 * kib;
  Memfd file;
  Arena arena = Arena::create(file.fd, Arena::data_offset + data_bytes, incarnation);
};

// Runs `body` in a child that then exits without clean-up, as a killed process does.
void in_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(ArenaTest, StartsEmpty) {
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_TRUE(arena.blocks().empty());
  EXPECT_EQ(arena.capacity(), data_bytes);
  EXPECT_EQ(arena.incarnation(), incarnation);
}

TEST_F(ArenaTest, ABlockGoesFromAllocatedToCommitted) {
  const uint64_t offset = arena.allocate(100, query, 5);
  EXPECT_EQ(offset % Arena::alignment, 0u);
  EXPECT_GE(offset, Arena::data_offset);
  EXPECT_EQ(arena.used_bytes(), 128u);
  ASSERT_EQ(arena.blocks().size(), 1u);
  EXPECT_EQ(arena.blocks()[0].state, BlockState::allocated);
  EXPECT_EQ(arena.blocks()[0].owner_pid, ::getpid());
  arena.publish(offset);
  EXPECT_EQ(arena.blocks()[0].state, BlockState::published);
  EXPECT_EQ(arena.commit(query, 5, std::vector{offset}), 0u);
  EXPECT_EQ(arena.commit(query, 5, std::vector{offset}), 0u);
  EXPECT_EQ(arena.blocks()[0].state, BlockState::committed);
  EXPECT_EQ(arena.blocks()[0].length, 100u);
  EXPECT_EQ(arena.blocks()[0].epoch, 5);
  arena.free(offset);
  EXPECT_EQ(arena.used_bytes(), 0u);
}

TEST_F(ArenaTest, CommitDropsLosersOfTheQueryUpToTheEpochOnly) {
  const auto published = [&](const Id128& of, int64_t epoch) {
    const uint64_t offset = arena.allocate(64, of, epoch);
    arena.publish(offset);
    return offset;
  };
  const uint64_t winner = published(query, 2);
  const uint64_t loser = published(query, 2);
  const uint64_t older = published(query, 1);
  const uint64_t newer = published(query, 3);
  const uint64_t foreign = published(other_query, 2);
  EXPECT_EQ(arena.commit(query, 2, std::vector{winner}), 2u);
  std::map<uint64_t, BlockState> states;
  for (const ArenaBlock& block : arena.blocks()) states[block.offset] = block.state;
  EXPECT_EQ(states,
            (std::map<uint64_t, BlockState>{
                {winner, BlockState::committed}, {newer, BlockState::published}, {foreign, BlockState::published}}));
  EXPECT_FALSE(states.contains(loser) || states.contains(older));
}

TEST_F(ArenaTest, AZombiesBlockKeepsItsBytesUntilItLetsGo) {
  const uint64_t zombie = arena.allocate(64, query, 2);
  EXPECT_EQ(arena.commit(query, 2, {}), 1u);
  ASSERT_EQ(arena.blocks().size(), 1u);
  EXPECT_EQ(arena.blocks()[0].state, BlockState::condemned);
  EXPECT_NE(arena.allocate(64, query, 3), zombie);
  EXPECT_EQ(arena.reclaim_dead(), 0u);
  expect_error(Status::invalid_input, "committed without this block", [&] { arena.publish(zombie); });
  EXPECT_EQ(arena.blocks().size(), 1u);
}

TEST_F(ArenaTest, ACommitWithAWrongOffsetChangesNothing) {
  const uint64_t good = arena.allocate(64, query, 1);
  arena.publish(good);
  const uint64_t unfinished = arena.allocate(64, query, 1);
  expect_error(Status::invalid_input, "must be published",
               [&] { arena.commit(query, 1, std::vector{good, unfinished}); });
  expect_error(Status::invalid_input, "no block at offset",
               [&] { arena.commit(query, 1, std::vector<uint64_t>{good, 12345}); });
  expect_error(Status::invalid_input, "another query", [&] { arena.commit(other_query, 1, std::vector{good}); });
  EXPECT_EQ(arena.blocks()[0].state, BlockState::published);
  EXPECT_EQ(arena.blocks()[1].state, BlockState::allocated);
}

TEST_F(ArenaTest, AFullArenaSaysWhatWasWantedAndWhatToRaise) {
  const uint64_t first = arena.allocate(100 * kib, query, 1);
  arena.allocate(100 * kib, query, 1);
  arena.free(first);
  expect_error(Status::arena_full,
               "block of 122880 bytes: 159744 bytes are free, 102400 of them in one piece, of 262144",
               [&] { arena.allocate(120 * kib, query, 1); });
  expect_error(Status::arena_full, "spark.slash.arena.size", [&] { arena.allocate(~uint64_t{0}, query, 1); });
  EXPECT_EQ(arena.allocate(64, query, 1), first);  // the lowest gap
}

TEST_F(ArenaTest, AFullEntryTableIsAnErrorToo) {
  for (uint32_t i = 0; i < data_bytes / 64; ++i) arena.allocate(1, query, 1);
  expect_error(Status::arena_full, "0 bytes are free", [&] { arena.allocate(1, query, 1); });
  Memfd big;
  Arena wide = Arena::create(big.fd, Arena::data_offset + 64 * (Arena::max_blocks + 1), incarnation);
  ArenaMapping raw(big.fd, wide.size());
  raw.header().touched_entries = Arena::max_blocks;
  for (ArenaEntry& entry : raw.table()) {
    entry.offset = Arena::data_offset;
    entry.length = 64;
    set_state(entry, BlockState::allocated);
  }
  expect_error(Status::arena_full, "holds 16384 blocks", [&] { wide.allocate(1, query, 1); });
}

TEST_F(ArenaTest, AnythingButTheArenaIsRefused) {
  Id128 wrong = incarnation;
  wrong[15] = 1;
  expect_error(Status::stale_incarnation, "another incarnation", [&] { Arena::attach(file.fd, wrong); });
  expect_error(Status::stale_incarnation, "not valid", [&] { Arena::attach(-1, incarnation); });
  Memfd empty;
  expect_error(Status::stale_incarnation, "only 0 bytes", [&] { Arena::attach(empty.fd, incarnation); });
  ASSERT_EQ(::ftruncate(empty.fd, Arena::data_offset + 4096), 0);
  expect_error(Status::stale_incarnation, "magic", [&] { Arena::attach(empty.fd, incarnation); });
  expect_error(Status::invalid_input, "too small", [&] { Arena::create(empty.fd, 4096, incarnation); });
  expect_error(Status::invalid_input, "not a fresh one", [&] { Arena::create(file.fd, arena.size(), incarnation); });
  ASSERT_EQ(::ftruncate(file.fd, static_cast<off_t>(arena.size() + 4096)), 0);
  expect_error(Status::stale_incarnation, "the file has", [&] { Arena::attach(file.fd, incarnation); });
}

TEST_F(ArenaTest, AnotherLayoutVersionIsRefused) {
  ArenaMapping raw(file.fd, arena.size());
  raw.header().version = 9;
  expect_error(Status::invalid_input, "layout version 9", [&] { Arena::attach(file.fd, incarnation); });
}

TEST_F(ArenaTest, WrongOffsetsAreRefused) {
  expect_error(Status::invalid_input, "no block at offset", [&] { arena.publish(64); });
  expect_error(Status::invalid_input, "no block at offset", [&] { arena.free(64); });
  expect_error(Status::invalid_input, "zero bytes", [&] { arena.allocate(0, query, 1); });
  expect_error(Status::invalid_input, "outside of the arena", [&] { (void)arena.view(arena.size() - 1, 2); });
  expect_error(Status::invalid_input, "outside of the arena", [&] { (void)arena.view(64, ~uint64_t{0}); });
  const uint64_t offset = arena.allocate(1, query, 1);
  arena.publish(offset);
  expect_error(Status::invalid_input, "is published, but must be allocated", [&] { arena.publish(offset); });
}

TEST_F(ArenaTest, AllocationMatchesAModelOfExtents) {
  std::mt19937_64 random(42);
  std::map<uint64_t, uint64_t> model;  // offset -> padded length
  const auto lowest_gap = [&](uint64_t wanted) {
    uint64_t at = Arena::data_offset;
    for (const auto& [offset, length] : model) {
      if (offset - at >= wanted) break;
      at = offset + length;
    }
    return at + wanted <= arena.size() ? at : 0;
  };
  for (int step = 0; step < 5000; ++step) {
    if (model.empty() || random() % 5 < 3) {
      const uint64_t length = 1 + random() % (random() % 8 == 0 ? 64 * kib : 2 * kib);
      const uint64_t padded = (length + 63) / 64 * 64;
      const uint64_t expected = lowest_gap(padded);
      if (expected == 0) {
        expect_error(Status::arena_full, "no room", [&] { arena.allocate(length, query, step); });
        continue;
      }
      ASSERT_EQ(arena.allocate(length, query, step), expected);
      model[expected] = padded;
    } else {
      auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
      arena.free(victim->first);
      model.erase(victim);
    }
  }
  uint64_t used = 0;
  for (const auto& [offset, length] : model) used += length;
  EXPECT_EQ(arena.used_bytes(), used);
}

TEST_F(ArenaTest, ProcessesShareOneArena) {
  const uint64_t mine = arena.allocate(64, query, 1);
  in_child([&] {
    Arena theirs = Arena::attach(file.fd, incarnation);
    const uint64_t offset = theirs.allocate(64, query, 1);
    std::memcpy(theirs.data() + offset, "from the child", 15);
    theirs.publish(offset);
  });
  const auto blocks = arena.blocks();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].offset, mine);
  EXPECT_EQ(blocks[1].state, BlockState::published);
  EXPECT_STREQ(reinterpret_cast<const char*>(arena.data() + blocks[1].offset), "from the child");
}

TEST_F(ArenaTest, WhatADeadProcessNeverPublishedIsReclaimed) {
  const uint64_t mine = arena.allocate(64, query, 1);
  in_child([&] {
    arena.publish(arena.allocate(64, query, 1));
    arena.allocate(640, query, 1);
    arena.allocate(64, other_query, 1);
  });
  EXPECT_EQ(arena.commit(other_query, 1, {}), 1u);  // condemned, then its owner found dead
  EXPECT_EQ(arena.blocks().size(), 4u);
  EXPECT_EQ(arena.reclaim_dead(), 2u);
  EXPECT_EQ(arena.reclaim_dead(), 0u);
  const auto blocks = arena.blocks();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].offset, mine);
  EXPECT_EQ(blocks[1].state, BlockState::published);
}

TEST_F(ArenaTest, AReusedPidDoesNotKeepABlock) {
  const uint64_t offset = arena.allocate(64, query, 1);
  ArenaMapping raw(file.fd, arena.size());
  raw.table()[0].owner_start += 1;  // as if this process had started after the owner had died
  EXPECT_EQ(arena.reclaim_dead(), 1u);
  expect_error(Status::invalid_input, "no block", [&] { arena.publish(offset); });
}

TEST_F(ArenaTest, ALockHeldByADeadProcessIsTakenOver) {
  arena.publish(arena.allocate(64, query, 1));
  in_child([&] {
    auto& raw = *new ArenaMapping(file.fd, arena.size());  // stays mapped, or the kernel cannot mark its lock
    ::pthread_mutex_lock(&raw.header().mutex);             // never unlocked
    // Dies in the middle of an allocation: the entry is filled in, its state is not stored.
    raw.header().touched_entries = 2;
    raw.table()[1].offset = Arena::data_offset;
  });
  EXPECT_EQ(arena.blocks().size(), 1u);
  EXPECT_EQ(arena.allocate(64, query, 1), Arena::data_offset + 64);
  EXPECT_EQ(arena.blocks().size(), 2u);
}

TEST_F(ArenaTest, TheMemoryOutlivesTheHandle) {
  std::shared_ptr<const void> keep;
  const uint8_t* bytes = nullptr;
  {
    Arena second = Arena::attach(file.fd, incarnation);
    const uint64_t offset = second.allocate(64, query, 1);
    second.data()[offset] = 42;
    bytes = second.view(offset, 64).data();
    keep = second.keep_alive();
  }
  EXPECT_EQ(*bytes, 42);
}

// Every thread writes its own mark over its block and must find it intact before it lets go.
void churn(Arena arena, uint8_t mark, int rounds) {
  std::mt19937 random(mark);
  for (int i = 0; i < rounds; ++i) {
    const uint64_t length = 1 + random() % 3000;
    const uint64_t offset = arena.allocate(length, query, i);
    std::memset(arena.data() + offset, mark, length);
    arena.publish(offset);
    const auto bytes = arena.view(offset, length);
    ASSERT_TRUE(std::ranges::all_of(bytes, [&](uint8_t b) { return b == mark; }));
    arena.free(offset);
  }
}

TEST_F(ArenaTest, ThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (uint8_t mark = 1; mark <= 4; ++mark) threads.emplace_back(churn, arena, mark, 500);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.used_bytes(), 0u);
}

TEST_F(ArenaTest, ProcessesDoNotDisturbEachOther) {
  std::vector<pid_t> children;
  for (uint8_t mark = 1; mark <= 3; ++mark) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      churn(Arena::attach(file.fd, incarnation), mark, 300);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(arena.used_bytes(), 0u);
}

TEST(ArenaLock, AHolderThatIsStoppedIsNotWaitedForForEver) {
  const int fd = ::memfd_create("lock-test", MFD_CLOEXEC);
  const Arena arena = Arena::create(fd, Arena::data_offset + 4096, Id128{9});
  const ArenaMapping mapping(fd, arena.size());
  ::close(fd);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const ArenaLock lock(mapping);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(status));
  expect_error(Status::arena_busy, "kill -CONT", [&] { const ArenaLock lock(mapping, 50); });
  ::kill(holder, SIGKILL);
  ::waitpid(holder, &status, 0);
  const ArenaLock taken_over(mapping, 50);
}

}  // namespace
}  // namespace pyslash
