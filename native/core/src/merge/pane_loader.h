// Reads segments of one partition of hash prefixes into dense arrays of states. A key has the same dense id in every
// pane that is loaded between two calls of begin().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "keyed_segment.h"
#include "pyslash/key_table.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"
#include "segment_index.h"

namespace pyslash {

class PaneLoader {
 public:
  explicit PaneLoader(const Plan& plan);

  // Forgets all keys; from now on keys of `range` only are taken.
  void begin(PrefixRange range);
  // Takes the keys of the pane's changes, and until begin() no others but those that are taken so.
  void take_changes(const std::vector<SegmentBytes>& pane);
  // Whether the pane has a segment that may hold keys of the range.
  bool concerns(const std::vector<SegmentBytes>& pane) const;
  // Adds the pane's groups to `states`, which grow to groups().
  void load(const std::vector<SegmentBytes>& pane, StateSet& states);

  // Groups that changes of panes in [pane_lo, pane_hi) hold, each once, in no particular order; of a deduplication
  // those that nothing else of these panes holds.
  void changed_groups(int64_t pane_lo, int64_t pane_hi, std::vector<uint32_t>& groups);

  const GroupKeys& keys() const { return keys_; }
  // Dense ids given so far, the ignored one included.
  size_t groups() const { return keys_.size(); }

  // Collects the rows that a wide segment has outside of the range: never a group of a result.
  static constexpr uint32_t ignored = KeyedSegment::ignored;

 private:
  void load(const SegmentBytes& segment, StateSet& states);
  // Ids of the open segment's rows into groups_, of keys that are taken.
  void find_taken();

  KeyedSegment segment_;
  GroupKeys keys_;
  KeyTable table_;
  PrefixRange range_{0, all_prefixes};
  bool deduplicates_;
  bool changes_only_ = false;
  using GroupsByPane = std::map<int64_t, std::vector<uint32_t>>;  // a group may be there more than once
  GroupsByPane changes_;
  GroupsByPane earlier_;  // of a deduplication: those of other segments than changes
  std::vector<bool> listed_;
  std::vector<uint32_t> groups_;  // of a segment's rows
};

// The groups of `states` that hold a row.
void present_groups(const StateSet& states, std::vector<uint32_t>& groups);

}  // namespace pyslash
