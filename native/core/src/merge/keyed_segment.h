// A segment that is open, with the hashes of its keys, of which those of a range of prefixes are wanted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/group_keys.h"
#include "pyslash/key_codec.h"
#include "pyslash/key_table.h"
#include "pyslash/plan.h"
#include "pyslash/segment.h"
#include "segment_index.h"

namespace pyslash {

// Status::corrupt_block if a key does not belong into the segment: what a partition holds is placed by its prefix, and
// a key from elsewhere would land outside of it.
void check_prefixes(const SegmentEntry& entry, std::span<const uint64_t> hashes);

class KeyedSegment {
 public:
  explicit KeyedSegment(const Plan& plan) : codec_(plan), reader_(plan) {}

  // Status::corrupt_block if it fails its checks, or holds a key that does not belong into it.
  void open(const SegmentBytes& segment, PrefixRange range);

  const KeyCodec& codec() const { return codec_; }
  const EncodedKeys& keys() const { return encoded_; }
  size_t size() const { return reader_.rows(); }
  // Whether all rows are wanted; else rows() are.
  bool whole() const { return whole_; }
  std::span<const uint32_t> rows() const { return rows_; }
  // The ids that wanted rows' keys have in a table, which takes new ones; those of other rows: `ignored`.
  void find_or_insert(KeyTable& table, GroupKeys& keys, std::vector<uint32_t>& groups) const;
  // Merges the states of row i into those of groups[i], for all rows.
  void merge(std::span<const uint32_t> groups, StateSet& states) const;

  // The id of a group that collects rows which are not wanted: the first of all, and never one of a result.
  static constexpr uint32_t ignored = 0;

 private:
  KeyCodec codec_;
  SegmentReader reader_;
  EncodedKeys encoded_;
  std::vector<uint32_t> rows_;
  bool whole_ = true;
};

// Lists each group once, without the ignored one; `scratch` is of no meaning between calls.
void list_once(std::vector<uint32_t>& groups, size_t all_groups, std::vector<bool>& scratch);

}  // namespace pyslash
