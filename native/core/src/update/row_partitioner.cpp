#include "pyslash/row_partitioner.h"

#include <algorithm>
#include <string>

#include "pyslash/block.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"
#include "update/batch.h"
#include "update/batch_keys.h"
#include "update/columns.h"
#include "update/row_bucket.h"
#include "update/rows.h"
#include "update/seal_rows.h"

namespace pyslash {

class RowPartitioner::Impl {
 public:
  explicit Impl(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)), batch_keys_(*plan_) {
    if (!plan_->row_bits()) throw Error(Status::invalid_plan, "the plan asks for groups, not for rows");
    if (plan_->joins()) throw Error(Status::invalid_plan, "rows of a join are not repartitioned");
    bits_ = *plan_->row_bits();
    for (size_t i = 0; i < size_t{1} << bits_; ++i) buckets_.emplace_back(plan_->columns().size());
  }

  void add(const Batch& batch) {
    rows_ += static_cast<int64_t>(batch.rows);
    const BatchColumn& time = batch.columns[0];
    for (size_t i = 0; i < batch.rows; ++i) {
      if (time.valid != nullptr && !time.valid[i]) continue;
      max_event_time_ = std::max(max_event_time_, load<int64_t>(time.values, i));
    }
    order(batch);
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const auto rows = std::span<const uint32_t>(order_).subspan(begin_[bucket], begin_[bucket + 1] - begin_[bucket]);
      if (!rows.empty()) buckets_[bucket].append(batch, rows);
    }
  }

  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity) const;

  std::shared_ptr<const Plan> plan_;
  int64_t rows_ = 0;
  int64_t max_event_time_ = INT64_MIN;
  RowReader row_reader_;
  ColumnReader column_reader_;

 private:
  // The batch's rows in order of their bucket, by counting.
  void order(const Batch& batch) {
    const EncodedKeys& encoded = batch_keys_.encode(batch);
    begin_.assign(buckets_.size() + 1, 0);
    bucket_of_.resize(batch.rows);
    for (size_t i = 0; i < batch.rows; ++i) {
      const auto bucket = static_cast<uint16_t>(bits_ == 0 ? 0 : prefix_of(encoded.hashes[i]) >> (32 - bits_));
      bucket_of_[i] = bucket;
      ++begin_[bucket + 1];
    }
    for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    next_.assign(begin_.begin(), begin_.end() - 1);
    order_.resize(batch.rows);
    for (size_t i = 0; i < batch.rows; ++i) order_[next_[bucket_of_[i]]++] = static_cast<uint32_t>(i);
  }

  BatchKeys batch_keys_;
  uint32_t bits_ = 0;
  std::vector<RowBucket> buckets_;
  std::vector<uint16_t> bucket_of_;  // of each row of the batch
  std::vector<uint32_t> begin_;      // where each bucket's rows begin in order_, and the end
  std::vector<uint32_t> next_;
  std::vector<uint32_t> order_;
};

std::vector<uint8_t> RowPartitioner::Impl::seal(Arena& arena, const BlockIdentity& identity) const {
  struct Segment {
    const RowBucket* bucket;
    std::vector<uint64_t> lengths;
  };
  std::vector<Segment> segments;
  std::vector<SegmentEntry> entries;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const RowBucket& bucket = buckets_[i];
    if (bucket.rows() == 0) continue;
    if (bucket.rows() > UINT32_MAX) throw Error(Status::invalid_input, "more than 2^32 rows in one task");
    SegmentEntry& entry = entries.emplace_back();
    entry.prefix_lo = bits_ == 0 ? 0 : static_cast<uint32_t>(i) << (32 - bits_);
    entry.prefix_bits = bits_;
    entry.rows = static_cast<uint32_t>(bucket.rows());
    Segment& segment = segments.emplace_back(Segment{&bucket, {}});
    entry.length = bucket.measure(plan_->columns(), segment.lengths);
  }
  return seal_rows(
      *plan_, arena, identity, std::move(entries), {rows_, 0, max_event_time_},
      [&](size_t i, std::span<uint8_t> out) { segments[i].bucket->write(plan_->columns(), segments[i].lengths, out); });
}

RowPartitioner::RowPartitioner(std::shared_ptr<const Plan> plan) : impl_(std::make_unique<Impl>(std::move(plan))) {}
RowPartitioner::~RowPartitioner() = default;
RowPartitioner::RowPartitioner(RowPartitioner&&) noexcept = default;
RowPartitioner& RowPartitioner::operator=(RowPartitioner&&) noexcept = default;

void RowPartitioner::add_rows(const uint8_t* page, size_t bytes, size_t rows) {
  impl_->row_reader_.read(*impl_->plan_, {page, bytes}, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void RowPartitioner::add_columns(std::span<const ColumnView> columns, size_t rows) {
  impl_->column_reader_.read(*impl_->plan_, columns, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void RowPartitioner::add_values(std::span<const BatchColumn> columns, size_t rows) {
  impl_->column_reader_.read(*impl_->plan_, columns, rows, [this](const Batch& batch) { impl_->add(batch); });
}

const Plan& RowPartitioner::plan() const { return *impl_->plan_; }
int64_t RowPartitioner::rows() const { return impl_->rows_; }
int64_t RowPartitioner::max_event_time() const { return impl_->max_event_time_; }

std::vector<uint8_t> RowPartitioner::seal(Arena& arena, const BlockIdentity& identity) const {
  return impl_->seal(arena, identity);
}

}  // namespace pyslash
