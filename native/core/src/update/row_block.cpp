#include "update/row_block.h"

#include <algorithm>
#include <string>

#include "pyslash/error.h"

namespace pyslash {

void RowBlockReader::read(const Plan& plan, const Head& head, uint64_t offset, Bytes bytes,
                          const BatchConsumer& consume) {
  open(plan, head);
  for (const SegmentEntry& entry : head.segments) {
    const std::optional<Bytes> held = segment_in(entry, offset, bytes);
    if (!held) continue;
    reader_->open(entry, *held);
    consume_segment(plan, consume);
  }
}

void RowBlockReader::open(const Plan& plan, const Head& head) {
  if (reader_ && head.header.plan_fingerprint == fingerprint_) return;
  const Plan of_rows = Plan::parse(head.plan_text);
  if (!of_rows.row_bits() || of_rows.columns() != plan.columns() || of_rows.keys() != plan.keys()) {
    throw Error(Status::invalid_plan, "the block of epoch " + std::to_string(head.header.epoch) +
                                          " does not hold rows of this plan's columns and keys");
  }
  reader_.emplace(of_rows);
  fingerprint_ = head.header.plan_fingerprint;
}

void RowBlockReader::consume_segment(const Plan& plan, const BatchConsumer& consume) {
  const std::span<const BatchColumn> columns = reader_->keys();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].valid != nullptr && !plan.columns()[i].nullable) {
      throw Error(Status::corrupt_block, "column " + std::to_string(i) + " holds a null, which the plan rules out");
    }
  }
  for (size_t begin = 0; begin < reader_->rows(); begin += batch_.rows) {
    batch_.rows = std::min(batch_rows, reader_->rows() - begin);
    batch_.columns.assign(columns.begin(), columns.end());
    for (BatchColumn& column : batch_.columns) {
      column.values += begin * (column.type.is_variable() ? sizeof(BytesRef) : column.type.width());
      if (column.valid != nullptr) column.valid += begin;
    }
    consume(batch_);
  }
}

}  // namespace pyslash
