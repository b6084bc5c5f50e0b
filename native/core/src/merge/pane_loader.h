// Reads segments of one partition of hash prefixes into dense arrays of states. A key has the same dense id in every
// pane that is loaded between two calls of begin().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pyslash/key_codec.h"
#include "pyslash/key_table.h"
#include "pyslash/plan.h"
#include "pyslash/segment.h"
#include "pyslash/states.h"
#include "segment_index.h"

namespace pyslash {

class PaneLoader {
 public:
  explicit PaneLoader(const Plan& plan);

  // Forgets all keys; from now on keys of `range` only are taken.
  void begin(PrefixRange range);
  // Whether the pane has a segment that may hold keys of the range.
  bool concerns(const std::vector<SegmentBytes>& pane) const;
  // Adds the pane's groups to `states`, which grow to groups().
  void load(const std::vector<SegmentBytes>& pane, StateSet& states);

  const GroupKeys& keys() const { return keys_; }
  // Dense ids given so far, the ignored one included.
  size_t groups() const { return keys_.size(); }

  // Collects the rows that a wide segment has outside of the range: never a group of a result.
  static constexpr uint32_t ignored = 0;

 private:
  void load(const SegmentBytes& segment, StateSet& states);

  KeyCodec codec_;
  GroupKeys keys_;
  KeyTable table_;
  SegmentReader reader_;
  PrefixRange range_{0, all_prefixes};
  EncodedKeys encoded_;
  std::vector<uint32_t> rows_;    // of a segment: those inside of the range
  std::vector<uint32_t> groups_;  // of a segment's rows
};

// The groups of `states` that hold a row.
void present_groups(const StateSet& states, std::vector<uint32_t>& groups);

}  // namespace pyslash
