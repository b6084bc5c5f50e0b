// Rows of one pane, column by column, of which segments of rows are cut by hash prefixes. No value may be null.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "merge/segment_index.h"
#include "pyslash/plan.h"
#include "update/batch.h"

namespace pyslash {

// Rows that make a segment; offset and CRC of its entry are for whoever places it.
struct RowSegment {
  SegmentEntry entry{};
  std::vector<uint32_t> rows;
  std::vector<uint64_t> lengths;  // of the segment's buffers
};

class RowLog {
 public:
  explicit RowLog(std::span<const Column> columns);

  size_t rows() const { return hashes_.size(); }
  // Some rows of a batch; `hashes` are those of all its rows' keys. Status::invalid_input if a value is null.
  void append(const Batch& batch, std::span<const uint64_t> hashes, std::span<const uint32_t> rows);
  void clear();

  // All rows, in segments as `segments_of` has them. Their prefixes lie in `range`, which is a power of two wide and
  // aligned to that. Status::invalid_input if a buffer's offsets would not fit int32.
  std::vector<RowSegment> cut(int64_t pane, PrefixRange range) const;
  // `out` is exactly the segment, of which every byte is written.
  void write(const RowSegment& segment, std::span<uint8_t> out) const;

 private:
  struct Values {
    Type type;
    std::vector<uint8_t> bytes;
    std::vector<uint64_t> ends;  // of variable width: where each row's bytes end

    uint64_t begin_of(uint32_t row) const { return row == 0 ? 0 : ends[row - 1]; }
  };
  void measure(RowSegment& segment) const;

  std::vector<Values> columns_;
  std::vector<uint64_t> hashes_;
};

}  // namespace pyslash
