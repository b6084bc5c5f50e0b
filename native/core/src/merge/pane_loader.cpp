#include "pane_loader.h"

#include <algorithm>

#include "pyslash/hash.h"

namespace pyslash {

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
