// The segments that a merge or a compaction has at hand, by pane.
#pragma once

#include <algorithm>
#include <map>
#include <ranges>
#include <vector>

#include "pyslash/block.h"
#include "pyslash/bytes.h"
#include "pyslash/plan.h"

namespace pyslash {

struct PrefixRange {
  uint64_t lo;
  uint64_t hi;  // beyond the last one; up to 2^32
};

inline constexpr uint64_t all_prefixes = uint64_t{1} << 32;

// How many upper bits all prefixes of a range share that is a power of two wide and aligned to that.
uint32_t bits_of(PrefixRange range);

// A segment in memory: its directory entry and its bytes, exactly.
struct SegmentBytes {
  SegmentEntry entry;
  Bytes bytes;
  bool is_change = false;  // of the epoch whose changes are emitted

  bool overlaps(PrefixRange range) const { return entry.prefix_lo < range.hi && range.lo < entry.prefix_hi(); }
  bool within(PrefixRange range) const { return range.lo <= entry.prefix_lo && entry.prefix_hi() <= range.hi; }
};

// By pane, ascending.
using SegmentIndex = std::map<int64_t, std::vector<SegmentBytes>>;

// The panes that start in [lo, hi), of what is kept by pane; none where that is empty.
template <typename T>
auto panes_of(const std::map<int64_t, T>& index, int64_t lo, int64_t hi) {
  return std::ranges::subrange(index.lower_bound(lo), index.lower_bound(std::max(lo, hi)));
}

// Status::invalid_input unless it is a range of prefixes, and holds some.
void check_range(PrefixRange range);

// Status::invalid_plan unless the block was made by this plan; Status::corrupt_block if it has panes of none of its
// windows.
void check_made_by(const Head& head, const Plan& plan);
// The same; Status::invalid_plan too if it is a plan of rows.
void check_plan(const Head& head, const Plan& plan);

// Status::corrupt_block unless the block has as many bytes as its head says.
void check_length(const Head& head, Bytes block);

// Rows that a block alone has in one pane, scaled to the whole prefix space: the most that any one does, so at least
// about that many groups are to be expected.
uint64_t expected_groups(const std::vector<SegmentBytes>& pane);

}  // namespace pyslash
