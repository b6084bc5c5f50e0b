#include "pane_loader.h"

#include <algorithm>
#include <span>
#include <string>

#include "pyslash/error.h"
#include "pyslash/hash.h"

namespace pyslash {
namespace {

// What a partition holds is placed by its prefix: a key from elsewhere would land outside of it.
void check_prefixes(const SegmentEntry& entry, std::span<const uint64_t> hashes) {
  if (entry.prefix_bits == 0) return;
  uint32_t differing = 0;
  for (const uint64_t hash : hashes) differing |= prefix_of(hash) ^ entry.prefix_lo;
  if (differing >> (32 - entry.prefix_bits) == 0) return;
  throw Error(Status::corrupt_block, "the segment of pane " + std::to_string(entry.pane) + " at " +
                                         std::to_string(entry.offset) + " holds a key of other prefixes than its own");
}

}  // namespace

PaneLoader::PaneLoader(const Plan& plan) : codec_(plan), keys_(codec_), reader_(plan) { begin(range_); }

void PaneLoader::begin(PrefixRange range) {
  range_ = range;
  table_.clear();
  keys_.clear();
  keys_.append_unreachable();
}

bool PaneLoader::concerns(const std::vector<SegmentBytes>& pane) const {
  return std::ranges::any_of(pane, [this](const SegmentBytes& segment) { return segment.overlaps(range_); });
}

void PaneLoader::load(const std::vector<SegmentBytes>& pane, StateSet& states) {
  for (const SegmentBytes& segment : pane) {
    if (segment.overlaps(range_)) load(segment, states);
  }
  states.resize(groups());
}

void PaneLoader::load(const SegmentBytes& segment, StateSet& states) {
  reader_.open(segment.entry, segment.bytes);
  const size_t rows = reader_.rows();
  codec_.encode(reader_.keys(), rows, encoded_);
  check_prefixes(segment.entry, std::span(encoded_.hashes).first(rows));
  if (segment.within(range_)) {
    groups_.resize(rows);
    table_.find_or_insert(encoded_, rows, keys_, groups_.data());
  } else {
    rows_.clear();
    for (size_t row = 0; row < rows; ++row) {
      const uint64_t prefix = prefix_of(encoded_.hashes[row]);
      if (range_.lo <= prefix && prefix < range_.hi) rows_.push_back(static_cast<uint32_t>(row));
    }
    if (rows_.empty()) return;
    groups_.assign(rows, ignored);
    table_.find_or_insert(encoded_, rows_, keys_, groups_.data());
  }
  states.resize(groups());
  for (size_t state = 0; state < states.size(); ++state) {
    states[state].merge(reader_.state(state), groups_.data(), rows);
  }
}

void present_groups(const StateSet& states, std::vector<uint32_t>& groups) {
  const std::vector<int64_t>& rows = states.rows();
  groups.resize(rows.size());
  size_t present = 0;
  for (uint32_t group = PaneLoader::ignored + 1; group < rows.size(); ++group) {
    groups[present] = group;  // overwritten by the next one if this one is absent: no branch to guess
    present += rows[group] != 0 ? 1 : 0;
  }
  groups.resize(present);
}

}  // namespace pyslash
