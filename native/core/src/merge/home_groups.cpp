#include "home_groups.h"

#include <numeric>

#include "pyslash/hash.h"

namespace pyslash {
namespace {

constexpr size_t table_groups = 16384;  // a table of as many stays in a CPU's L2 cache
constexpr uint32_t most_bits = 12;
constexpr uint32_t split_bits = 3;

}  // namespace

HomeGroups::HomeGroups(const Plan& plan, const KeyCodec& codec)
    : keys_(codec), states_(plan), deduplicates_(plan.deduplicates()), tables_(1) {
  keys_.append_unreachable();
}

void HomeGroups::fold(const KeyedSegment& segment, bool is_change) {
  find_or_insert(segment);
  if (deduplicates_) {
    if (is_change) merge_new(segment);
  } else {
    states_.resize(keys_.size());
    segment.merge(groups_, states_);
    if (is_change) {
      changed_.insert(changed_.end(), groups_.begin(), groups_.end());
      listed_once_ = false;
    }
  }
  while (size() > (table_groups << bits_) && bits_ < most_bits) split();
}

// Merges the rows of groups that are new.
void HomeGroups::merge_new(const KeyedSegment& segment) {
  const uint32_t first = first_state();
  places_.resize(groups_.size());
  for (size_t row = 0; row < groups_.size(); ++row) {
    places_[row] = groups_[row] < settled_ ? KeyedSegment::ignored : groups_[row] - first;
  }
  states_.resize(keys_.size() - first);
  segment.merge(places_, states_);
}

// Ids of the segment's groups into groups_.
void HomeGroups::find_or_insert(const KeyedSegment& segment) {
  if (bits_ == 0) return segment.find_or_insert(tables_[0], keys_, groups_);
  const EncodedKeys& keys = segment.keys();
  groups_.assign(segment.size(), KeyedSegment::ignored);
  rows_.resize(tables_.size());
  const auto take = [&](uint32_t row) { rows_[table_of(keys.hashes[row])].push_back(row); };
  if (segment.whole()) {
    for (uint32_t row = 0; row < segment.size(); ++row) take(row);
  } else {
    for (const uint32_t row : segment.rows()) take(row);
  }
  for (size_t table = 0; table < tables_.size(); ++table) {
    if (rows_[table].empty()) continue;
    tables_[table].find_or_insert(keys, rows_[table], keys_, groups_.data());
    rows_[table].clear();
  }
}

void HomeGroups::split() {
  bits_ += split_bits;
  std::vector<std::vector<uint32_t>> groups(size_t{1} << bits_);
  for (uint32_t group = KeyedSegment::ignored + 1; group < keys_.size(); ++group) {
    groups[table_of(keys_.hash(group))].push_back(group);
  }
  tables_ = std::vector<KeyTable>(groups.size());
  for (size_t table = 0; table < tables_.size(); ++table) tables_[table].restore(keys_, groups[table]);
}

size_t HomeGroups::table_of(uint64_t hash) const { return bits_ == 0 ? 0 : prefix_of(hash) >> (32 - bits_); }

void HomeGroups::settle() {
  changed_.clear();
  listed_once_ = true;
  settled_ = static_cast<uint32_t>(keys_.size());
  if (deduplicates_) states_.reset(1);
}

std::span<const uint32_t> HomeGroups::added() { return all().subspan(settled_ - 1); }

std::span<const uint32_t> HomeGroups::changed() {
  if (!listed_once_) list_once(changed_, keys_.size(), listed_);
  listed_once_ = true;
  return changed_;
}

std::span<const uint32_t> HomeGroups::all() {
  const size_t had = all_.size();
  all_.resize(size());
  std::iota(all_.begin() + static_cast<std::ptrdiff_t>(had), all_.end(),
            static_cast<uint32_t>(had) + KeyedSegment::ignored + 1);
  return all_;
}

}  // namespace pyslash
