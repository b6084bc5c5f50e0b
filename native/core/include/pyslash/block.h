// The head of a block: what it is and where its segments are. docs/block-format.md documents every byte.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash {

inline constexpr uint64_t block_magic = 0x014853414c535950ULL;  // "PYSLASH\1"
inline constexpr uint32_t block_version = 1;

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t head_length;  // header, segment entries and plan text, padded to a multiple of 64
  uint64_t plan_fingerprint;
  std::array<uint8_t, 16> query;
  std::array<uint8_t, 16> incarnation;  // of the arena that it was written into
  int64_t epoch;
  int64_t attempt;
  uint64_t arena_offset;
  uint64_t length;  // of the whole block; 0: there was nothing to write, the head is a mere receipt
  uint64_t groups;
  uint64_t rows;
  uint64_t late_rows;
  int64_t max_event_time;  // microseconds; INT64_MIN if no row had a time
  uint32_t segment_count;
  uint32_t plan_length;
  uint32_t head_crc;  // CRC32C of the head with this field zero
  std::array<uint8_t, 60> reserved;
};
static_assert(sizeof(Header) == 192);

struct SegmentEntry {
  int64_t pane;
  uint32_t prefix_lo;
  uint32_t prefix_bits;  // holds the prefixes whose top bits equal those of prefix_lo; 0: all
  uint32_t rows;
  uint32_t crc;     // CRC32C of the segment's bytes
  uint64_t offset;  // from the start of the block
  uint64_t length;  // a multiple of 64
  uint64_t reserved;

  // First prefix beyond the segment, up to 2^32.
  uint64_t prefix_hi() const { return prefix_lo + (uint64_t{1} << (32 - prefix_bits)); }
};
static_assert(sizeof(SegmentEntry) == 48);

// A segment's bytes, if `bytes`, which start `offset` bytes into its block, hold it whole.
std::optional<Bytes> segment_in(const SegmentEntry& entry, uint64_t offset, Bytes bytes);

struct Head {
  Header header;
  std::vector<SegmentEntry> segments;  // by (pane, prefix_lo)
  std::string plan_text;
};

// The head at the start of `bytes` (a receipt, or a block; what follows the head is not looked at).
// Status::corrupt_block if magic, version, lengths or CRC are wrong, or an entry points outside the block.
Head read_head(Bytes bytes);
// The head's bytes; fills in head_length, segment_count, plan_length, plan_fingerprint, magic, version and head_crc.
std::vector<uint8_t> write_head(const Head& head);
size_t head_length(size_t segments, size_t plan_length);

struct ByteRange {
  uint64_t offset;  // from the start of the block
  uint64_t length;
  bool operator==(const ByteRange&) const = default;
};

// What a reader of panes in [pane_lo, pane_hi) and prefixes in [prefix_lo, prefix_hi) must fetch, ascending; adjacent
// segments are one range. A segment that is wider than the prefixes asked for is fetched whole.
std::vector<ByteRange> ranges(const Head& head, int64_t pane_lo, int64_t pane_hi, uint64_t prefix_lo,
                              uint64_t prefix_hi);

}  // namespace pyslash
