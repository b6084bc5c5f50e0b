// A segment that is open, with the hashes of its keys, of which those of a range of prefixes are wanted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/key_codec.h"
#include "pyslash/plan.h"
#include "pyslash/segment.h"
#include "segment_index.h"

namespace pyslash {

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
  // Merges the states of row i into those of groups[i], for all rows.
  void merge(const uint32_t* groups, StateSet& states) const;

 private:
  KeyCodec codec_;
  SegmentReader reader_;
  EncodedKeys encoded_;
  std::vector<uint32_t> rows_;
  bool whole_ = true;
};

}  // namespace pyslash
