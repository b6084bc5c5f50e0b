#include "segment_index.h"

#include <algorithm>
#include <string>

#include "pyslash/error.h"

namespace pyslash {

void check_range(PrefixRange range) {
  if (range.lo < range.hi && range.hi <= all_prefixes) return;
  throw Error(Status::invalid_input, "hash prefixes from " + std::to_string(range.lo) + " to " +
                                         std::to_string(range.hi) + " are no range within 0 to 4294967296");
}

uint32_t bits_of(PrefixRange range) {
  uint32_t bits = 0;
  for (uint64_t width = range.hi - range.lo; width < all_prefixes; width *= 2) ++bits;
  return bits;
}

void check_plan(const Head& head, const Plan& plan) {
  if (plan.row_bits()) throw Error(Status::invalid_plan, "blocks of rows hold no groups that could be merged");
  check_made_by(head, plan);
}

void check_made_by(const Head& head, const Plan& plan) {
  if (head.header.plan_fingerprint != plan.fingerprint()) {
    throw Error(Status::invalid_plan, "the block was made by a plan of fingerprint " +
                                          std::to_string(head.header.plan_fingerprint) + ", this one has " +
                                          std::to_string(plan.fingerprint()));
  }
  const Window& window = plan.window();
  for (const SegmentEntry& entry : head.segments) {
    const bool possible = entry.pane >= window.min_time() - window.size_us() && entry.pane <= window.max_time() &&
                          window.pane_of(entry.pane) == entry.pane;
    if (!possible) {
      throw Error(Status::corrupt_block, "a segment of the block is of pane " + std::to_string(entry.pane) +
                                             ", which the plan's window has not");
    }
  }
}

void check_length(const Head& head, Bytes block) {
  if (block.size() == head.header.length) return;
  throw Error(Status::corrupt_block, "the block of epoch " + std::to_string(head.header.epoch) + " has " +
                                         std::to_string(block.size()) + " bytes, its head says " +
                                         std::to_string(head.header.length));
}

uint64_t expected_groups(const std::vector<SegmentBytes>& pane) {
  uint64_t most = 0;
  for (const SegmentBytes& segment : pane) {
    most = std::max(most, uint64_t{segment.entry.rows} << segment.entry.prefix_bits);
  }
  return most;
}

}  // namespace pyslash
