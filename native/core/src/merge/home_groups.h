// The groups of one window in a home: a table that grows, cut by hash prefixes into parts that a segment finds in the
// CPU's cache, and the list of those that the last epoch has changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "keyed_segment.h"
#include "pyslash/group_keys.h"
#include "pyslash/key_table.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"

namespace pyslash {

class HomeGroups {
 public:
  HomeGroups(const Plan& plan, const KeyCodec& codec);

  // Merges a segment's wanted rows; of a deduplication, what is no change leaves nothing but its keys.
  void fold(const KeyedSegment& segment, bool is_change);
  // What was changed before is changed no more, and what is there is new no more.
  void settle();

  const GroupKeys& keys() const { return keys_; }
  const StateSet& states() const { return states_; }
  size_t size() const { return keys_.size() - 1; }
  // Ids of the groups that were changed, each once; of all groups.
  std::span<const uint32_t> changed();
  std::span<const uint32_t> all();
  // Of those that are new.
  std::span<const uint32_t> added();
  // The group that the states begin with: of a deduplication only those that are new have any.
  uint32_t first_state() const { return deduplicates_ ? settled_ - 1 : 0; }

 private:
  void find_or_insert(const KeyedSegment& segment);
  void merge_new(const KeyedSegment& segment);
  void split();
  size_t table_of(uint64_t hash) const;

  GroupKeys keys_;  // the first one collects rows that are not wanted
  StateSet states_;
  bool deduplicates_;
  uint32_t settled_ = 1;  // groups before this one are not new
  uint32_t bits_ = 0;     // of a prefix, that choose the table
  std::vector<KeyTable> tables_;
  std::vector<uint32_t> changed_;
  bool listed_once_ = true;  // each of changed_
  std::vector<uint32_t> all_;
  std::vector<bool> listed_;
  // Scratch.
  std::vector<uint32_t> groups_;
  std::vector<uint32_t> places_;             // of their states
  std::vector<std::vector<uint32_t>> rows_;  // by table
};

}  // namespace pyslash
