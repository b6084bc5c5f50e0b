#include "pane_loader.h"

#include <algorithm>

namespace pyslash {

PaneLoader::PaneLoader(const Plan& plan) : segment_(plan), keys_(segment_.codec()), deduplicates_(plan.deduplicates()) {
  begin(range_);
}

void PaneLoader::begin(PrefixRange range) {
  range_ = range;
  table_.clear();
  keys_.clear();
  keys_.append_unreachable();
  changes_.clear();
  earlier_.clear();
  changes_only_ = false;
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

void PaneLoader::take_changes(const std::vector<SegmentBytes>& pane) {
  changes_only_ = true;
  for (const SegmentBytes& segment : pane) {
    if (!segment.is_change || !segment.overlaps(range_)) continue;
    segment_.open(segment, range_);
    segment_.find_or_insert(table_, keys_, groups_);
  }
}

void PaneLoader::load(const SegmentBytes& segment, StateSet& states) {
  segment_.open(segment, range_);
  if (!segment_.whole() && segment_.rows().empty()) return;
  if (changes_only_) {
    find_taken();
  } else {
    segment_.find_or_insert(table_, keys_, groups_);
  }
  const bool is_earlier = deduplicates_ && changes_only_ && !segment.is_change;
  if (segment.is_change || is_earlier) {
    std::vector<uint32_t>& listed = (is_earlier ? earlier_ : changes_)[segment.entry.pane];
    listed.insert(listed.end(), groups_.begin(), groups_.end());
  }
  if (is_earlier) return;  // whatever it holds is not emitted any more
  states.resize(groups());
  segment_.merge(groups_, states);
}

void PaneLoader::find_taken() {
  groups_.resize(segment_.size());
  table_.find(segment_.keys(), segment_.size(), keys_, groups_.data());
  std::ranges::replace(groups_, KeyTable::absent, ignored);
}

void PaneLoader::changed_groups(int64_t pane_lo, int64_t pane_hi, std::vector<uint32_t>& groups) {
  groups.clear();
  for (const auto& [pane, changed] : panes_of(changes_, pane_lo, pane_hi)) {
    groups.insert(groups.end(), changed.begin(), changed.end());
  }
  list_once(groups, keys_.size(), listed_);
  const auto earlier = panes_of(earlier_, pane_lo, pane_hi);
  if (earlier.empty()) return;
  listed_.assign(keys_.size(), false);
  for (const auto& [pane, held] : earlier) {
    for (const uint32_t group : held) listed_[group] = true;
  }
  std::erase_if(groups, [this](uint32_t group) { return listed_[group]; });
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
