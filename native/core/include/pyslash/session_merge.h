// The read side of sessions where no home has them: parts of sessions out of many blocks, put together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/plan.h"
#include "pyslash/record_batch.h"
#include "pyslash/seal.h"

namespace pyslash {

// Which sessions a SessionMerger is asked for; times are microseconds.
struct SessionRange {
  int64_t pane = 0;                // that holds the state
  int64_t evicted_us = INT64_MIN;  // sessions that ended by then have been emitted before
  int64_t closing_us = INT64_MAX;  // of the others, those that end by then are wanted
  uint64_t prefix_lo = 0;          // keys' hash prefixes
  uint64_t prefix_hi = uint64_t{1} << 32;
};

// Not safe for concurrent use.
class SessionMerger {
 public:
  // Status::invalid_plan if the plan is none of sessions.
  SessionMerger(std::shared_ptr<const Plan> plan, const SessionRange& range);
  ~SessionMerger();
  SessionMerger(SessionMerger&&) noexcept;
  SessionMerger& operator=(SessionMerger&&) noexcept;

  // Takes the segments of a block that `bytes`, which start `offset` bytes into it, hold whole; what is read, in bytes.
  // Status::corrupt_block, Status::invalid_plan as Merger::add; Status::invalid_input once sessions have been asked
  // for.
  uint64_t add(const Head& head, uint64_t offset, Bytes bytes);
  // The next sessions that are wanted, at most `max_rows`; nothing at the end.
  std::optional<RecordBatch> next(size_t max_rows);
  // All that are wanted into the plan's place, where they are born, as a published block (none if there is no session);
  // its head. Status::arena_full if there is no room.
  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
