// Groups of a range of hash prefixes that stay in memory from epoch to epoch, for operators that emit what an epoch has
// changed: only the changes are read then, not all that there is (docs/design/024).
//
// A home is a cache of blocks as of a version, and never the truth: one that is lost, or has missed an epoch, reads all
// blocks again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "pyslash/block.h"
#include "pyslash/bytes.h"
#include "pyslash/plan.h"
#include "pyslash/record_batch.h"

namespace pyslash {

// A live block, wherever its bytes are mapped. They must stay valid and unchanged during the call that takes it.
struct MappedBlock {
  const Head* head;
  Bytes bytes;
};

// What an epoch makes of the state. `before` and `version` tell states apart: equal ones are the same groups.
struct HomeUpdate {
  std::string before;      // the state that the epoch's blocks are changes of; empty: there was none
  std::string version;     // the state with them
  int64_t epoch = 0;       // of the blocks that are the changes
  int64_t evicted_us = 0;  // windows that end by then are over
  // Of sessions only: the pane that holds the state, and which sessions are emitted: those that end by then.
  int64_t pane = 0;
  int64_t closing_us = 0;
};

// Not safe for concurrent use.
class Home {
 public:
  // Of the keys whose hash prefix lies in [prefix_lo, prefix_hi), prefix_hi <= 2^32.
  Home(std::shared_ptr<const Plan> plan, uint64_t prefix_lo, uint64_t prefix_hi);
  ~Home();
  Home(Home&&) noexcept;
  Home& operator=(Home&&) noexcept;

  const Plan& plan() const;
  // Of the state that it holds; empty: of none.
  const std::string& version() const;
  // Whether only the blocks of the update's epoch are read to bring the state to its version.
  bool follows(const HomeUpdate& update) const;
  // Brings the state to the update's version, if it is not there yet, with all blocks at hand that it reads; the bytes
  // that were read. Status::corrupt_block, Status::invalid_plan as Merger::add; the home is empty after an error.
  uint64_t advance(const HomeUpdate& update, std::span<const MappedBlock> blocks);

  // Where a reader of the rows stands.
  struct Cursor {
    // Groups that the version's epoch has changed; else all that there are. Of a deduplication those that it has added,
    // of sessions those that it emits.
    bool changed_only = true;
    int64_t window = INT64_MIN;  // the next one starts here or later
    uint64_t group = 0;          // of those that are emitted: the next one
  };
  // The next rows, at most `max_rows`; nothing at the end. Status::arithmetic_overflow under ANSI rules.
  std::optional<RecordBatch> next(Cursor& cursor, size_t max_rows);

  // Groups there are, in all windows.
  uint64_t groups() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
