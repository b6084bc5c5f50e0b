// A segment: the groups of one pane and hash-prefix bucket as columns of keys and states.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/block.h"
#include "pyslash/bytes.h"
#include "pyslash/column.h"
#include "pyslash/group_keys.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"

namespace pyslash {

// Reads segments of a plan's blocks; reuse one for many.
class SegmentReader {
 public:
  explicit SegmentReader(const Plan& plan);

  // `bytes` are the entry's, exactly, and must live while the columns are used. Checks the CRC, then every length, and
  // offsets in a copy: bytes of shared memory may change between the check and their use.
  // Status::corrupt_block if anything is wrong.
  void open(const SegmentEntry& entry, Bytes bytes);

  size_t rows() const { return rows_; }
  // Key columns in key order, ready for KeyCodec::encode. Of a plan of rows: all columns, event time first.
  std::span<const BatchColumn> keys() const { return keys_; }
  // Buffers of a state, ready for StateColumn::merge.
  std::span<const Bytes> state(size_t index) const;

 private:
  void open_key(size_t key, std::span<const Bytes> buffers);

  std::vector<Column> key_columns_;
  StateSet layout_;  // asked for lengths only, holds no groups
  std::vector<Bytes> buffers_;
  std::vector<size_t> offsets_;               // buffers of int32 offsets
  std::vector<std::vector<uint8_t>> copies_;  // of these
  std::vector<size_t> state_begin_;           // first buffer of state i; one more than states
  std::vector<BatchColumn> keys_;
  std::vector<std::vector<uint8_t>> valid_;
  std::vector<std::vector<BytesRef>> refs_;
  size_t rows_ = 0;
};

// Writes segments: first the length, then the bytes.
class SegmentWriter {
 public:
  SegmentWriter(const GroupKeys& keys, const StateSet& states);

  // Lengths of the segment's buffers for these groups; what it returns is the segment's length.
  uint64_t measure(std::span<const uint32_t> groups, std::vector<uint64_t>& lengths) const;
  // `lengths` as measured for the same groups; `out` is exactly the segment. Every byte of it is written.
  void write(std::span<const uint32_t> groups, std::span<const uint64_t> lengths, std::span<uint8_t> out);

 private:
  const GroupKeys& keys_;
  const StateSet& states_;
  size_t buffers_;
  std::vector<ResultColumn> decoded_;
};

}  // namespace pyslash
