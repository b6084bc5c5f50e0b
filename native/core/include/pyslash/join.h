// The join of two streams, of keys in a range of hash prefixes: rows of both sides that stay in memory from epoch to
// epoch, and the pairs of rows that an epoch has to look at. Whether a pair joins is for the caller to say, who knows
// the join's condition (docs/design/029).
//
// Like a home (home.h) it is a cache of blocks as of a version, and never the truth.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pyslash/home.h"
#include "pyslash/plan.h"
#include "pyslash/row_shape.h"

namespace pyslash {

// What a join gives besides pairs of rows that join.
struct JoinKind {
  bool left_outer = false;   // rows of the left side that have joined with nothing, when they are evicted
  bool right_outer = false;  // likewise
  bool remembers = false;    // whether a row has joined counts in later epochs
};

// What the rows of both sides look like: each is checked when it comes out of a block.
struct JoinShapes {
  RowShape left = RowShape::any();
  RowShape right = RowShape::any();
};

// The pairs that an epoch has to look at, in this order.
enum class JoinPhase : int64_t {
  remembered,     // kept rows that may have joined before: nothing is emitted, the caller sets what has matched
  left_new,       // new rows of the left side, and kept ones of the right
  right_new,      // new rows of the right side, and kept and new ones of the left
  alone,          // rows that join with nothing
  left_evicted,   // rows that have joined with nothing until they were evicted
  right_evicted,  // likewise
  done,
};

// The addresses of two rows, each with a KeptRow in front of it; null: there is no row on that side.
struct RowPair {
  const uint8_t* left;
  const uint8_t* right;
};
static_assert(sizeof(RowPair) == 16);

// Not safe for concurrent use.
class JoinHome {
 public:
  // Of the keys whose hash prefix lies in [prefix_lo, prefix_hi), prefix_hi <= 2^32.
  JoinHome(std::shared_ptr<const Plan> plan, uint64_t prefix_lo, uint64_t prefix_hi, JoinKind kind, JoinShapes shapes);
  ~JoinHome();
  JoinHome(JoinHome&&) noexcept;
  JoinHome& operator=(JoinHome&&) noexcept;

  const Plan& plan() const;
  const JoinShapes& shapes() const;
  // As Home's. `evicted_us` and `closing_us` are the watermarks until which rows had been evicted before the epoch, and
  // are evicted by its end.
  const std::string& version() const;
  bool follows(const HomeUpdate& update) const;
  uint64_t advance(const HomeUpdate& update, std::span<const MappedBlock> blocks);

  // Where a reader of the pairs stands. Readers may begin again, and several may read at a time.
  struct Cursor {
    JoinPhase phase = JoinPhase::remembered;
    int64_t bucket = INT64_MIN;
    size_t row = 0;
    const void* of = nullptr;    // the row whose pairs are read
    const void* with = nullptr;  // the next one that may go with it
  };
  // The next pairs, at most `most`, and their phase; none at the end.
  JoinPhase next(Cursor& cursor, size_t most, std::vector<RowPair>& pairs);

  // Rows that are kept, of both sides.
  uint64_t rows() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
