#include "pyslash/arena.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "arena_mapping.h"
#include "pyslash/bytes.h"
#include "pyslash/error.h"
#include "pyslash/process.h"

namespace pyslash {
namespace {

struct Extent {
  uint64_t begin;
  uint64_t end;
};

// What is in use, in order of address.
std::vector<Extent> used_extents(const ArenaMapping& mapping) {
  std::vector<Extent> used;
  for (ArenaEntry& entry : mapping.touched()) {
    if (state_of(entry) != BlockState::free)
      used.push_back({entry.offset, entry.offset + align_up(entry.length, Arena::alignment)});
  }
  std::ranges::sort(used, {}, &Extent::begin);
  return used;
}

// Offset of the lowest gap of `wanted` bytes. First fit keeps the touched part of the memfd small: a freed page stays
// resident (it may be pinned for RDMA, so it must never be given back to the kernel).
uint64_t first_fit(const std::vector<Extent>& used, uint64_t wanted, uint64_t size) {
  uint64_t at = Arena::data_offset;
  uint64_t free = 0;
  uint64_t largest = 0;
  const auto consider = [&](uint64_t end) {
    if (end - at >= wanted) return true;
    free += end - at;
    largest = std::max(largest, end - at);
    return false;
  };
  for (const Extent& extent : used) {
    if (consider(extent.begin)) return at;
    at = extent.end;
  }
  if (consider(size)) return at;
  throw Error(Status::arena_full,
              "the arena has no room for a block of " + std::to_string(wanted) + " bytes: " + std::to_string(free) +
                  " bytes are free, " + std::to_string(largest) + " of them in one piece, of " +
                  std::to_string(size - Arena::data_offset) + " in all; raise spark.slash.arena.size");
}

ArenaEntry& free_entry(const ArenaMapping& mapping) {
  for (ArenaEntry& entry : mapping.touched()) {
    if (state_of(entry) == BlockState::free) return entry;
  }
  uint64_t& touched = mapping.header().touched_entries;
  if (touched == Arena::max_blocks) {
    throw Error(Status::arena_full, "the arena already holds " + std::to_string(Arena::max_blocks) +
                                        " blocks, the most it can list; compact more often, or spread the state over "
                                        "more executors");
  }
  return mapping.table()[touched++];
}

ArenaEntry* find(const ArenaMapping& mapping, uint64_t offset) {
  for (ArenaEntry& entry : mapping.touched()) {
    if (entry.offset == offset && state_of(entry) != BlockState::free) return &entry;
  }
  return nullptr;
}

ArenaEntry& find_or_throw(const ArenaMapping& mapping, uint64_t offset) {
  ArenaEntry* entry = find(mapping, offset);
  if (entry == nullptr) {
    throw Error(Status::invalid_input, "the arena holds no block at offset " + std::to_string(offset));
  }
  return *entry;
}

const char* name_of(BlockState state) {
  constexpr const char* names[] = {"free", "allocated", "published", "committed", "condemned"};
  return names[static_cast<uint32_t>(state)];
}

Error wrong_state(uint64_t offset, BlockState found, const char* wanted) {
  return {Status::invalid_input,
          "the block at offset " + std::to_string(offset) + " is " + name_of(found) + ", but must be " + wanted};
}

// What becomes of a block whose epoch was committed without it.
BlockState after_losing(BlockState state) {
  switch (state) {
    case BlockState::allocated:
      return BlockState::condemned;
    case BlockState::published:
      return BlockState::free;
    default:
      return state;
  }
}

}  // namespace

Arena Arena::create(int fd, uint64_t size, const Id128& incarnation) {
  if (size < data_offset + alignment) {
    throw Error(Status::invalid_input, "an arena of " + std::to_string(size) +
                                           " bytes is too small: its tables alone take " + std::to_string(data_offset) +
                                           "; raise spark.slash.arena.size");
  }
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    throw Error(Status::internal,
                "cannot size the arena to " + std::to_string(size) + " bytes: " + std::strerror(errno));
  }
  auto mapping = std::make_shared<ArenaMapping>(fd, size);
  ArenaHeader& header = mapping->header();
  if (header.magic != 0) throw Error(Status::invalid_input, "the file behind the descriptor is not a fresh one");
  header.version = arena_version;
  header.creator_pid = ::getpid();
  header.size = size;
  header.incarnation = incarnation;
  initialise_lock(header.mutex);
  std::atomic_ref(header.magic).store(arena_magic, std::memory_order_release);
  return Arena(std::move(mapping));
}

Arena Arena::attach(int fd, const Id128& incarnation) {
  struct stat file{};
  if (::fstat(fd, &file) != 0) {
    throw Error(Status::stale_incarnation, std::string("the arena's descriptor is not valid: ") + std::strerror(errno));
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  if (size < data_offset) {
    throw Error(Status::stale_incarnation,
                "the descriptor is not an arena's: the file has only " + std::to_string(size) + " bytes");
  }
  auto mapping = std::make_shared<ArenaMapping>(fd, size);
  ArenaHeader& header = mapping->header();
  if (std::atomic_ref(header.magic).load(std::memory_order_acquire) != arena_magic) {
    throw Error(Status::stale_incarnation, "the descriptor is not an arena's: the file lacks the magic number");
  }
  if (header.version != arena_version) {
    throw Error(Status::invalid_input, "the arena has layout version " + std::to_string(header.version) +
                                           ", this library knows " + std::to_string(arena_version) +
                                           "; use one pyslash version on all of a host");
  }
  if (header.incarnation != incarnation) {
    throw Error(Status::stale_incarnation, "the arena belongs to another incarnation of the agent");
  }
  if (header.size != size) {
    throw Error(Status::stale_incarnation, "the arena says it has " + std::to_string(header.size) +
                                               " bytes, the file has " + std::to_string(size));
  }
  return Arena(std::move(mapping));
}

uint64_t Arena::allocate(uint64_t length, const Id128& query, int64_t epoch) {
  if (length == 0) throw Error(Status::invalid_input, "a block of zero bytes cannot be allocated");
  const ProcessId self = current_process();
  const ArenaLock lock(*mapping_);
  const uint64_t capped = std::min(length, uint64_t{1} << 62);  // rounding up must not wrap around
  const uint64_t wanted = align_up(capped, alignment);
  const uint64_t offset = first_fit(used_extents(*mapping_), wanted, mapping_->size() / alignment * alignment);
  ArenaEntry& entry = free_entry(*mapping_);
  entry.offset = offset;
  entry.length = length;
  entry.owner_pid = self.pid;
  entry.owner_start = self.start_time;
  entry.query = query;
  entry.epoch = epoch;
  set_state(entry, BlockState::allocated);
  return offset;
}

void Arena::publish(uint64_t offset) {
  const ArenaLock lock(*mapping_);
  ArenaEntry& entry = find_or_throw(*mapping_, offset);
  const BlockState state = state_of(entry);
  if (state == BlockState::condemned) {
    set_state(entry, BlockState::free);
    throw Error(Status::invalid_input,
                "epoch " + std::to_string(entry.epoch) +
                    " was committed without this block: the task that wrote it had been replaced");
  }
  if (state != BlockState::allocated) throw wrong_state(offset, state, "allocated");
  set_state(entry, BlockState::published);
}

void Arena::free(uint64_t offset) {
  const ArenaLock lock(*mapping_);
  set_state(find_or_throw(*mapping_, offset), BlockState::free);
}

size_t Arena::commit(const Id128& query, int64_t epoch, std::span<const uint64_t> offsets) {
  const ArenaLock lock(*mapping_);
  std::vector<ArenaEntry*> winners;
  for (const uint64_t offset : offsets) {
    ArenaEntry& entry = find_or_throw(*mapping_, offset);
    const BlockState state = state_of(entry);
    if (state != BlockState::published && state != BlockState::committed) throw wrong_state(offset, state, "published");
    if (entry.query != query) {
      throw Error(Status::invalid_input, "the block at offset " + std::to_string(offset) + " belongs to another query");
    }
    winners.push_back(&entry);
  }
  for (ArenaEntry* entry : winners) set_state(*entry, BlockState::committed);
  size_t dropped = 0;
  for (ArenaEntry& entry : mapping_->touched()) {
    const BlockState state = state_of(entry);
    if (state == BlockState::free || entry.query != query || entry.epoch > epoch) continue;
    if (const BlockState next = after_losing(state); next != state) {
      set_state(entry, next);
      ++dropped;
    }
  }
  return dropped;
}

size_t Arena::reclaim_dead() {
  const ArenaLock lock(*mapping_);
  size_t reclaimed = 0;
  for (ArenaEntry& entry : mapping_->touched()) {
    const BlockState state = state_of(entry);
    if (state != BlockState::allocated && state != BlockState::condemned) continue;
    if (is_alive({.pid = entry.owner_pid, .start_time = entry.owner_start})) continue;
    set_state(entry, BlockState::free);
    ++reclaimed;
  }
  return reclaimed;
}

uint64_t Arena::size() const noexcept { return mapping_->size(); }

uint64_t Arena::capacity() const noexcept { return mapping_->size() / alignment * alignment - data_offset; }

uint64_t Arena::used_bytes() const {
  const ArenaLock lock(*mapping_);
  uint64_t used = 0;
  for (const Extent& extent : used_extents(*mapping_)) used += extent.end - extent.begin;
  return used;
}

std::vector<ArenaBlock> Arena::blocks() const {
  std::vector<ArenaBlock> blocks;
  {
    const ArenaLock lock(*mapping_);
    for (ArenaEntry& entry : mapping_->touched()) {
      const BlockState state = state_of(entry);
      if (state == BlockState::free) continue;
      blocks.push_back({entry.offset, entry.length, state, entry.owner_pid, entry.query, entry.epoch});
    }
  }
  std::ranges::sort(blocks, {}, &ArenaBlock::offset);
  return blocks;
}

const Id128& Arena::incarnation() const noexcept { return mapping_->header().incarnation; }

uint8_t* Arena::data() const noexcept { return mapping_->data(); }

std::span<const uint8_t> Arena::view(uint64_t offset, uint64_t length) const {
  if (offset > size() || length > size() - offset) {
    throw Error(Status::invalid_input, "bytes " + std::to_string(offset) + " to " + std::to_string(offset) + " + " +
                                           std::to_string(length) + " lie outside of the arena of " +
                                           std::to_string(size()));
  }
  return {data() + offset, length};
}

std::shared_ptr<const void> Arena::keep_alive() const noexcept { return mapping_; }

}  // namespace pyslash
