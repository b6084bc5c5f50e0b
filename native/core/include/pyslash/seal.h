// Groups into an immutable block.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/block.h"

namespace pyslash {

class Arena;

struct BlockIdentity {
  std::array<uint8_t, 16> query;
  int64_t epoch;
  int64_t attempt;
};

// What a block says of the rows that went in.
struct BlockFigures {
  int64_t rows;
  int64_t late_rows;
  int64_t max_event_time;  // INT64_MIN if none
};

// Orders the groups by (pane, hash prefix), lays the block out, then writes it wherever the caller found room. What
// it is given must stay unchanged until write() is done.
class BlockWriter {
 public:
  // `panes` ascending, each pane once. Empty ones are left out.
  BlockWriter(const Plan& plan, std::vector<PaneGroups> panes);

  // Exact size of the block; 0 if there is no group.
  size_t bytes() const { return bytes_; }
  // Writes the block to `out` (bytes() long; nothing if that is 0) and returns its head.
  std::vector<uint8_t> write(std::span<uint8_t> out, const BlockIdentity& identity,
                             const std::array<uint8_t, 16>& incarnation, uint64_t arena_offset,
                             const BlockFigures& figures);

 private:
  struct Segment {
    size_t pane;   // index into panes_
    size_t first;  // its groups are panes_[pane].groups[first ...]
    std::vector<uint64_t> lengths;
  };
  void cut(size_t pane);

  const Plan& plan_;
  std::vector<PaneGroups> panes_;
  std::vector<Segment> segments_;
  std::vector<SegmentEntry> entries_;  // same order as segments_
  uint64_t groups_ = 0;
  size_t bytes_ = 0;
};

// Writes the accumulator's groups into the arena as a published block (none if there is no group) and returns the
// block's head, which is the task's receipt. Status::arena_full if there is no room; the accumulator is unchanged.
std::vector<uint8_t> seal(const Accumulator& accumulator, Arena& arena, const BlockIdentity& identity);

// Has `write` fill `bytes` of the arena, which begin at the offset that it is told, and return their head; they are
// published then, or freed if it throws. Status::arena_full if there is no room.
std::vector<uint8_t> publish_block(
    Arena& arena, uint64_t bytes, const BlockIdentity& identity,
    const std::function<std::vector<uint8_t>(std::span<uint8_t> out, uint64_t offset)>& write);

// About this many groups a segment at most, so that one fits the cache of a merge, in at most 2^12 segments a pane.
inline constexpr size_t segment_groups = 8192;
inline constexpr uint32_t max_prefix_bits = 12;

// Readers of a few prefixes read whole segments, what others want of them included. So they are narrower still, down to
// a 2^6th of all prefixes, as long as there are about this many groups in each.
inline constexpr uint32_t shared_prefix_bits = 6;
inline constexpr size_t smallest_segment_groups = 128;

// Into how many segments, equally wide, groups are cut whose prefixes are so many beside each other: a power of two, as
// `prefixes` is (2^32: all).
uint64_t segments_of(uint64_t groups, uint64_t prefixes);

}  // namespace pyslash
