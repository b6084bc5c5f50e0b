// A segment of a join's rows that is open, of which those of a range of prefixes are wanted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "merge/segment_index.h"
#include "pyslash/plan.h"
#include "pyslash/segment.h"
#include "update/batch.h"
#include "update/batch_keys.h"

namespace pyslash {

class JoinSegment {
 public:
  explicit JoinSegment(const Plan& plan) : reader_(plan), keys_(plan) {}

  // What it gives from here on is valid until the next call. Status::corrupt_block if the segment fails its checks,
  // holds a null, or a key that does not belong into it.
  void open(const SegmentBytes& segment, PrefixRange range);

  const Batch& batch() const { return batch_; }
  std::span<const uint64_t> hashes() const { return keys_.encoded().hashes; }
  // Those that are wanted.
  std::span<const uint32_t> rows() const { return rows_; }

  template <typename T>
  T value(JoinColumn column, uint32_t row) const {
    return load<T>(batch_.columns[column].values, row);
  }

 private:
  SegmentReader reader_;
  BatchKeys keys_;
  Batch batch_;
  std::vector<uint32_t> rows_;
};

}  // namespace pyslash
