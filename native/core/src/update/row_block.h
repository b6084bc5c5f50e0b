// Segments of rows, as a RowPartitioner has written them, into batches of columns: without a copy but of null bits.
#pragma once

#include <cstdint>
#include <optional>

#include "pyslash/block.h"
#include "pyslash/plan.h"
#include "pyslash/segment.h"
#include "update/batch.h"

namespace pyslash {

class RowBlockReader {
 public:
  // The segments that `bytes`, which start `offset` bytes into the block, hold whole; others are not looked at.
  // Status::invalid_plan if the block is none of rows, or of other columns or keys than the plan's;
  // Status::corrupt_block if a segment fails its checks.
  void read(const Plan& plan, const Head& head, uint64_t offset, Bytes bytes, const BatchConsumer& consume);

 private:
  void open(const Plan& plan, const Head& head);
  void consume_segment(const Plan& plan, const BatchConsumer& consume);

  uint64_t fingerprint_ = 0;  // of the plan that reader_ is for
  std::optional<SegmentReader> reader_;
  Batch batch_;
};

}  // namespace pyslash
