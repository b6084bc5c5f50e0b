#include "pyslash/join_rows.h"

#include <map>
#include <utility>

#include "joins/row_log.h"
#include "pyslash/error.h"
#include "update/batch_keys.h"
#include "update/columns.h"
#include "update/event_time.h"
#include "update/pane_finder.h"
#include "update/rows.h"
#include "update/seal_rows.h"

namespace pyslash {

class JoinRows::Impl {
 public:
  explicit Impl(std::shared_ptr<const Plan> plan)
      : plan_(std::move(plan)), batch_keys_(*plan_), numbers_(plan_->window()) {
    if (!plan_->joins()) throw Error(Status::invalid_plan, "the plan is of no join");
  }

  void add(const Batch& batch) {
    const EncodedKeys& keys = batch_keys_.encode(batch);
    const BatchColumn& time = batch.columns[0];
    for (uint32_t row = 0; row < batch.rows; ++row) {
      if (time.valid != nullptr && !time.valid[row]) throw Error(Status::invalid_input, "a row of a join has no time");
      const auto value = load<int64_t>(time.values, row);
      check_time(plan_->window(), value);
      rows_of_[numbers_.start(numbers_(value))].push_back(row);
    }
    for (auto& [pane, rows] : rows_of_) {
      if (rows.empty()) continue;
      panes_.try_emplace(pane, plan_->columns()).first->second.append(batch, keys.hashes, rows);
      rows.clear();
    }
    rows_ += static_cast<int64_t>(batch.rows);
  }

  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity) const {
    std::vector<std::pair<const RowLog*, RowSegment>> segments;
    std::vector<SegmentEntry> entries;
    for (const auto& [pane, log] : panes_) {
      for (RowSegment& segment : log.cut(pane, {0, all_prefixes})) {
        entries.push_back(segment.entry);
        segments.emplace_back(&log, std::move(segment));
      }
    }
    return seal_rows(*plan_, arena, identity, std::move(entries), {rows_, 0, INT64_MIN},
                     [&](size_t i, std::span<uint8_t> out) { segments[i].first->write(segments[i].second, out); });
  }

  std::shared_ptr<const Plan> plan_;
  int64_t rows_ = 0;
  RowReader row_reader_;
  ColumnReader column_reader_;

 private:
  BatchKeys batch_keys_;
  PaneNumbers numbers_;
  std::map<int64_t, RowLog> panes_;
  std::map<int64_t, std::vector<uint32_t>> rows_of_;  // the batch's, by pane
};

JoinRows::JoinRows(std::shared_ptr<const Plan> plan) : impl_(std::make_unique<Impl>(std::move(plan))) {}
JoinRows::~JoinRows() = default;
JoinRows::JoinRows(JoinRows&&) noexcept = default;
JoinRows& JoinRows::operator=(JoinRows&&) noexcept = default;

void JoinRows::add_rows(const uint8_t* page, size_t bytes, size_t rows) {
  impl_->row_reader_.read(*impl_->plan_, {page, bytes}, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void JoinRows::add_columns(std::span<const ColumnView> columns, size_t rows) {
  impl_->column_reader_.read(*impl_->plan_, columns, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void JoinRows::add_values(std::span<const BatchColumn> columns, size_t rows) {
  impl_->column_reader_.read(*impl_->plan_, columns, rows, [this](const Batch& batch) { impl_->add(batch); });
}

const Plan& JoinRows::plan() const { return *impl_->plan_; }
int64_t JoinRows::rows() const { return impl_->rows_; }

std::vector<uint8_t> JoinRows::seal(Arena& arena, const BlockIdentity& identity) const {
  return impl_->seal(arena, identity);
}

}  // namespace pyslash
