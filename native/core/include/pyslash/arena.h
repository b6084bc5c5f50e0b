// The arena: one memfd per executor that holds every block, shared by the agent, the executor's JVM and the Python
// workers. Any of them allocates and publishes by itself, without a message to the agent.
//
//   page 0          ArenaHeader: magic, version, size, incarnation, creator, robust mutex
//   page 1 ...      entry table, 16384 entries of 64 bytes
//   then            data; every block starts at a multiple of 64
//
// The entry table alone says what is in use. An entry's state is stored last, so a process may be killed between any
// two instructions and leave either the old or the new table, never a mixture; its lock is recovered (EOWNERDEAD).
//
//                 allocate            publish             commit
//     free ------------> allocated ----------> published --------> committed
//                            | commit of the epoch     |                |
//                            v without it              v free, commit   v free
//                        condemned ---publish-------> free <------------+
//
// A block that is still being written when its epoch commits without it (a zombie attempt) is condemned rather than
// freed: its bytes must not be handed to another writer until the first one has let go or has died.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pyslash {

using Id128 = std::array<uint8_t, 16>;

enum class BlockState : uint32_t { free = 0, allocated = 1, published = 2, committed = 3, condemned = 4 };

struct ArenaBlock {
  uint64_t offset;  // bytes from the start of the arena
  uint64_t length;  // bytes, as asked for
  BlockState state;
  int32_t owner_pid;
  Id128 query;
  int64_t epoch;
};

class ArenaMapping;

// A handle on a mapped arena: cheap to copy, safe to use from several threads and processes at once.
class Arena {
 public:
  // Sizes the file behind `fd` (a fresh memfd) to `size` bytes, header and table included, and lays out an empty
  // arena. The descriptor stays the caller's and may be closed afterwards.
  static Arena create(int fd, uint64_t size, const Id128& incarnation);
  // Maps an arena that another process created. Status::stale_incarnation if the file is no arena or another one's.
  static Arena attach(int fd, const Id128& incarnation);

  // Offset of `length` fresh bytes (contents undefined), owned by this process until published.
  // Status::arena_full if no gap is that long.
  uint64_t allocate(uint64_t length, const Id128& query, int64_t epoch);
  // The block is complete and immutable from here on. Throws Status::invalid_input, and frees the block, if its
  // epoch was committed without it in the meantime.
  void publish(uint64_t offset);
  void free(uint64_t offset);

  // Makes the published blocks at `offsets` the query's, and drops every other uncommitted block of the query up to
  // `epoch`; returns how many were dropped. All or nothing if an offset is wrong. May be repeated. A block of a later
  // epoch may be among the offsets: a compaction's result is numbered beyond all epochs.
  size_t commit(const Id128& query, int64_t epoch, std::span<const uint64_t> offsets);
  // Frees what dead processes allocated and never published; returns how many blocks.
  size_t reclaim_dead();

  uint64_t size() const noexcept;          // of the whole file, bytes
  uint64_t capacity() const noexcept;      // of the data area, bytes
  uint64_t used_bytes() const;             // of the data area
  std::vector<ArenaBlock> blocks() const;  // in order of offset
  const Id128& incarnation() const noexcept;
  uint8_t* data() const noexcept;                                         // the whole file; offsets count from here
  std::span<const uint8_t> view(uint64_t offset, uint64_t length) const;  // Status::invalid_input if out of bounds
  // Keeps the memory mapped for as long as it is held.
  std::shared_ptr<const void> keep_alive() const noexcept;

  static constexpr uint64_t header_bytes = 4096;
  static constexpr uint32_t max_blocks = 16384;
  static constexpr uint64_t data_offset = header_bytes + uint64_t{max_blocks} * 64;
  static constexpr uint64_t alignment = 64;

 private:
  explicit Arena(std::shared_ptr<ArenaMapping> mapping) : mapping_(std::move(mapping)) {}
  std::shared_ptr<ArenaMapping> mapping_;
};

}  // namespace pyslash
