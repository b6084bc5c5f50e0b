// The read side: partial groups of many blocks into rows of windows.
//
// Windows are taken in runs, in order of time, and every run in partitions of hash prefixes, so that the groups at hand
// stay in the CPU's cache:
//
//     for each run of windows                        (src/merge/window_runs.h)
//       for each partition of the prefixes           (src/merge/prefix_walk.h)
//         each pane once: its segments of all blocks into one dense array of states; a group has the same place in
//         every pane's array                         (src/merge/pane_loader.h)
//         each window: two combinations of arrays, whatever size/slide is    (src/merge/sliding_windows.h)
//         groups that are present -> keys, aggregates -> Arrow columns
//
// References: van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and octagonal kernels"
// (1992), for the windows; Li et al., "No pane, no gain" (SIGMOD Record 34(1), 2005), for the panes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pyslash/block.h"
#include "pyslash/plan.h"
#include "pyslash/record_batch.h"

namespace pyslash {

// Not safe for concurrent use. Reading consumes nothing: the same blocks may be merged by any number of Mergers.
class Merger {
 public:
  // Emits the windows that start at `window_starts` (any order), of keys whose hash prefix lies in
  // [prefix_lo, prefix_hi), prefix_hi <= 2^32; where `changed_in` is an epoch, only groups that a block of this epoch
  // has rows of, and of a deduplication only those that no other block has. Status::invalid_input if a start is not a
  // start of the plan's windows.
  Merger(std::shared_ptr<const Plan> plan, std::span<const int64_t> window_starts, uint64_t prefix_lo = 0,
         uint64_t prefix_hi = uint64_t{1} << 32, std::optional<int64_t> changed_in = std::nullopt);
  ~Merger();
  Merger(Merger&&) noexcept;
  Merger& operator=(Merger&&) noexcept;

  // Adds the segments of a block that `bytes`, which start `offset` bytes into it, hold whole; others are not looked
  // at, nor are panes and prefixes that are not wanted. The bytes must stay valid and unchanged. Status::corrupt_block
  // if a segment's CRC is wrong (none of them is added then), Status::invalid_plan if the block was made by another
  // plan, Status::invalid_input once next() has been called. Returns how many bytes were taken.
  uint64_t add(const Head& head, uint64_t offset, Bytes bytes);

  // The next rows, at most `max_rows`; nothing at the end. Rows of a window follow each other within a partition, in no
  // particular order. Status::arithmetic_overflow under ANSI rules, Status::corrupt_block if a segment has changed
  // since it was added; after an error there are no more rows, but Status::invalid_input.
  std::optional<RecordBatch> next(size_t max_rows);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
