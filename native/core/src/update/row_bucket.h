// The rows of one bucket, column by column, in the layout of a segment's key columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/plan.h"
#include "update/batch.h"
#include "update/chunks.h"

namespace pyslash {

class RowBucket {
 public:
  explicit RowBucket(size_t columns) : columns_(columns) {}

  uint64_t rows() const { return rows_; }
  // Appends these rows of the batch.
  void append(const Batch& batch, std::span<const uint32_t> rows);

  // Length of the segment, and of each of its buffers. Status::invalid_input if a buffer's offsets would not fit int32.
  uint64_t measure(std::span<const Column> columns, std::vector<uint64_t>& lengths) const;
  // `lengths` as measured; `out` is exactly the segment, of which every byte is written.
  void write(std::span<const Column> columns, std::span<const uint64_t> lengths, std::span<uint8_t> out) const;

 private:
  struct ColumnRows {
    Chunks values;       // of variable width: the bytes
    Chunks sizes;        // of variable width: uint32 each
    Chunks valid;        // a byte a row, once there has been a null
    bool nulls = false;  // there has
  };
  void append_valid(ColumnRows& to, const BatchColumn& from, std::span<const uint32_t> rows) const;

  std::vector<ColumnRows> columns_;
  uint64_t rows_ = 0;
};

}  // namespace pyslash
