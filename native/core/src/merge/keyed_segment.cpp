#include "keyed_segment.h"

#include <string>

#include "pyslash/error.h"
#include "pyslash/hash.h"

namespace pyslash {

void check_prefixes(const SegmentEntry& entry, std::span<const uint64_t> hashes) {
  if (entry.prefix_bits == 0) return;
  uint32_t differing = 0;
  for (const uint64_t hash : hashes) differing |= prefix_of(hash) ^ entry.prefix_lo;
  if (differing >> (32 - entry.prefix_bits) == 0) return;
  throw Error(Status::corrupt_block, "the segment of pane " + std::to_string(entry.pane) + " at " +
                                         std::to_string(entry.offset) + " holds a key of other prefixes than its own");
}

void KeyedSegment::open(const SegmentBytes& segment, PrefixRange range) {
  reader_.open(segment.entry, segment.bytes);
  codec_.encode(reader_.keys(), size(), encoded_);
  const auto hashes = std::span<const uint64_t>(encoded_.hashes).first(size());
  check_prefixes(segment.entry, hashes);
  whole_ = segment.within(range);
  rows_.clear();
  for (uint32_t row = 0; !whole_ && row < size(); ++row) {
    const uint64_t prefix = prefix_of(hashes[row]);
    if (range.lo <= prefix && prefix < range.hi) rows_.push_back(row);
  }
}

void KeyedSegment::find_or_insert(KeyTable& table, GroupKeys& keys, std::vector<uint32_t>& groups) const {
  if (whole_) {
    groups.resize(size());
    table.find_or_insert(encoded_, size(), keys, groups.data());
  } else {
    groups.assign(size(), ignored);
    table.find_or_insert(encoded_, rows_, keys, groups.data());
  }
}

void KeyedSegment::merge(std::span<const uint32_t> groups, StateSet& states) const {
  for (size_t state = 0; state < states.size(); ++state) {
    states[state].merge(reader_.state(state), groups.data(), size());
  }
}

void list_once(std::vector<uint32_t>& groups, size_t all_groups, std::vector<bool>& scratch) {
  scratch.assign(all_groups, false);
  scratch[KeyedSegment::ignored] = true;
  size_t kept = 0;
  for (const uint32_t group : groups) {
    if (!scratch[group]) groups[kept++] = group;
    scratch[group] = true;
  }
  groups.resize(kept);
}

}  // namespace pyslash
