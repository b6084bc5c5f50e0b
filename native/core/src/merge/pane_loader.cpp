#include "pane_loader.h"

#include <algorithm>

namespace pyslash {

PaneLoader::PaneLoader(const Plan& plan) : segment_(plan), keys_(segment_.codec()) { begin(range_); }

void PaneLoader::begin(PrefixRange range) {
  range_ = range;
  table_.clear();
  keys_.clear();
  keys_.append_unreachable();
  fresh_.clear();
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
    if (!segment.fresh || !segment.overlaps(range_)) continue;
    segment_.open(segment, range_);
    find_or_insert();
  }
}

void PaneLoader::load(const SegmentBytes& segment, StateSet& states) {
  segment_.open(segment, range_);
  if (changes_only_) {
    find();
  } else {
    find_or_insert();
  }
  states.resize(groups());
  segment_.merge(groups_.data(), states);
  if (segment.fresh) {
    std::vector<uint32_t>& fresh = fresh_[segment.entry.pane];
    fresh.insert(fresh.end(), groups_.begin(), groups_.end());
  }
}

void PaneLoader::find() {
  groups_.resize(segment_.size());
  table_.find(segment_.keys(), segment_.size(), keys_, groups_.data());
  for (uint32_t& group : groups_) group = group == KeyTable::absent ? ignored : group;
}

void PaneLoader::find_or_insert() {
  groups_.assign(segment_.size(), ignored);
  if (segment_.whole()) {
    table_.find_or_insert(segment_.keys(), segment_.size(), keys_, groups_.data());
  } else {
    table_.find_or_insert(segment_.keys(), segment_.rows(), keys_, groups_.data());
  }
}

void PaneLoader::fresh_groups(int64_t pane_lo, int64_t pane_hi, std::vector<uint32_t>& groups) {
  groups.clear();
  listed_.assign(keys_.size(), false);
  listed_[ignored] = true;
  for (auto pane = fresh_.lower_bound(pane_lo); pane != fresh_.end() && pane->first < pane_hi; ++pane) {
    for (const uint32_t group : pane->second) {
      if (!listed_[group]) groups.push_back(group);
      listed_[group] = true;
    }
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
