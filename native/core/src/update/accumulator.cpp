#include "pyslash/accumulator.h"

#include <algorithm>
#include <map>
#include <optional>

#include "pyslash/error.h"
#include "sessions/session_rows.h"
#include "update/batch.h"
#include "update/batch_keys.h"
#include "update/columns.h"
#include "update/event_time.h"
#include "update/pane_finder.h"
#include "update/pane_tables.h"
#include "update/row_block.h"
#include "update/rows.h"

namespace pyslash {

class Accumulator::Impl {
 public:
  Impl(std::shared_ptr<const Plan> plan, int64_t watermark_us, Position first)
      : plan_(std::move(plan)),
        watermark_(watermark_us),
        first_(first),
        batch_keys_(*plan_),
        keys_(batch_keys_.codec()),
        states_(*plan_),
        numbers_(plan_->window()) {
    if (plan_->row_bits()) throw Error(Status::invalid_plan, "a plan of rows has nothing to aggregate");
    if (plan_->session()) sessions_.emplace(*plan_, batch_keys_.codec(), watermark_us);
  }

  void add(const Batch& batch) {
    const Position first{first_.epoch, first_.row + rows_};
    rows_ += static_cast<int64_t>(batch.rows);
    if (batch.rows == 0) return;
    groups_.resize(batch.rows);
    batch_keys_.encode(batch);
    if (sessions_) {
      sessions_->begin(batch, batch_keys_.encoded(), groups_.data());
      update(batch, first, sessions_->states());
      sessions_->end();
      return;
    }
    tables_.next_batch();
    if (!find_in_one_pane(batch)) find_in_panes(batch);
    states_.resize(keys_.size());
    update(batch, first, states_);
  }

  std::shared_ptr<const Plan> plan_;
  int64_t watermark_;
  Position first_;
  int64_t rows_ = 0;
  int64_t late_rows_ = 0;
  int64_t max_event_time_ = INT64_MIN;
  std::map<int64_t, Pane> panes_;
  BatchKeys batch_keys_;
  GroupKeys keys_;
  StateSet states_;
  std::optional<SessionRows> sessions_;  // in the place of panes
  RowReader row_reader_;
  ColumnReader column_reader_;
  RowBlockReader block_reader_;

 private:
  void update(const Batch& batch, const Position& first, StateSet& states) {
    for (size_t i = 0; i < states.size(); ++i) {
      inputs_.clear();
      for (const int column : plan_->states()[i].columns) {
        inputs_.push_back(batch.columns[static_cast<size_t>(column)]);
      }
      states[i].update({inputs_, first}, groups_.data(), batch.rows);
    }
  }

  // Of the pane that a row of this time goes into.
  int64_t number_of(int64_t time) const { return plan_->window().is_all_time() ? 0 : numbers_(time); }

  // By its own time; its pane may be late besides.
  bool is_late(int64_t time) const { return plan_->of_moments() && time <= watermark_; }

  // The common case: event times of one batch lie in one pane.
  bool find_in_one_pane(const Batch& batch) {
    const BatchColumn& time = batch.columns[0];
    if (time.valid != nullptr) return false;
    int64_t least = INT64_MAX;
    int64_t greatest = INT64_MIN;
    for (size_t i = 0; i < batch.rows; ++i) {
      const auto value = load<int64_t>(time.values, i);
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    }
    check_time(plan_->window(), least);
    check_time(plan_->window(), greatest);
    const int64_t pane = numbers_.start(number_of(least));
    if (pane != numbers_.start(number_of(greatest)) || is_late(least) || plan_->window().is_late(pane, watermark_)) {
      return false;
    }
    max_event_time_ = std::max(max_event_time_, greatest);
    insert(panes_[pane],
           [&](Pane& in) { in.table.find_or_insert(batch_keys_.encoded(), batch.rows, keys_, groups_.data()); });
    return true;
  }

  void find_in_panes(const Batch& batch) {
    const BatchColumn& time = batch.columns[0];
    const Window& window = plan_->window();
    touched_.clear();
    for (size_t i = 0; i < batch.rows; ++i) {
      int64_t value = Plan::timeless;
      if (time.valid == nullptr || time.valid[i]) {
        value = load<int64_t>(time.values, i);
        check_time(window, value);
        max_event_time_ = std::max(max_event_time_, value);
      } else if (!plan_->of_moments()) {
        groups_[i] = ignored();
        continue;
      }
      Pane* const pane = is_late(value) ? nullptr : recent_.get(number_of(value), [&](int64_t number) {
        const int64_t start = numbers_.start(number);
        return window.is_late(start, watermark_) ? nullptr : &panes_[start];
      });
      if (pane == nullptr) {
        ++late_rows_;
        groups_[i] = ignored();
        continue;
      }
      if (pane->rows.empty()) touched_.push_back(pane);
      pane->rows.push_back(static_cast<uint32_t>(i));
    }
    for (Pane* pane : touched_) {
      insert(*pane, [&](Pane& in) { in.table.find_or_insert(batch_keys_.encoded(), in.rows, keys_, groups_.data()); });
      pane->rows.clear();
    }
  }

  // Ids are dense over all panes: those that `find` has made new are this pane's.
  template <typename Find>
  void insert(Pane& pane, Find&& find) {
    tables_.touch(pane, keys_);
    const auto before = static_cast<uint32_t>(keys_.size());
    find(pane);
    for (auto group = before; group < keys_.size(); ++group) pane.groups.push_back(group);
  }

  // A group that no pane holds takes what late rows and rows without a time would add, so that the states' loops run
  // over whole batches.
  uint32_t ignored() {
    if (ignored_ == UINT32_MAX) ignored_ = keys_.append_unreachable();
    return ignored_;
  }

  std::vector<uint32_t> groups_;
  std::vector<BatchColumn> inputs_;
  std::vector<Pane*> touched_;
  PaneTables tables_;
  PaneNumbers numbers_;
  PaneCache<Pane*> recent_;  // null: the pane is late
  uint32_t ignored_ = UINT32_MAX;
};

Accumulator::Accumulator(std::shared_ptr<const Plan> plan, int64_t watermark_us, Position first)
    : impl_(std::make_unique<Impl>(std::move(plan), watermark_us, first)) {}
Accumulator::~Accumulator() = default;
Accumulator::Accumulator(Accumulator&&) noexcept = default;
Accumulator& Accumulator::operator=(Accumulator&&) noexcept = default;

void Accumulator::add_rows(const uint8_t* page, size_t bytes, size_t rows) {
  impl_->row_reader_.read(*impl_->plan_, {page, bytes}, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void Accumulator::add_columns(std::span<const ColumnView> columns, size_t rows) {
  impl_->column_reader_.read(*impl_->plan_, columns, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void Accumulator::add_values(std::span<const BatchColumn> columns, size_t rows) {
  impl_->column_reader_.read(*impl_->plan_, columns, rows, [this](const Batch& batch) { impl_->add(batch); });
}

void Accumulator::add_block(const Head& head, uint64_t offset, Bytes bytes) {
  impl_->block_reader_.read(*impl_->plan_, head, offset, bytes, [this](const Batch& batch) { impl_->add(batch); });
}

const Plan& Accumulator::plan() const { return *impl_->plan_; }
std::shared_ptr<const Plan> Accumulator::shared_plan() const { return impl_->plan_; }
int64_t Accumulator::rows() const { return impl_->rows_; }
int64_t Accumulator::late_rows() const { return impl_->sessions_ ? impl_->sessions_->late_rows() : impl_->late_rows_; }
int64_t Accumulator::max_event_time() const {
  return impl_->sessions_ ? impl_->sessions_->max_event_time() : impl_->max_event_time_;
}

int64_t Accumulator::groups() const {
  if (impl_->sessions_) return static_cast<int64_t>(impl_->sessions_->slots().size());
  size_t groups = 0;
  for (const auto& [start, pane] : impl_->panes_) groups += pane.groups.size();
  return static_cast<int64_t>(groups);
}

std::vector<PaneGroups> Accumulator::panes() const {
  if (impl_->sessions_) {
    const SessionTable& table = impl_->sessions_->table();
    return {{impl_->plan_->place().pane, &table.keys(), &table.states(), impl_->sessions_->slots()}};
  }
  std::vector<PaneGroups> panes;
  for (const auto& [start, pane] : impl_->panes_) panes.push_back({start, &impl_->keys_, &impl_->states_, pane.groups});
  return panes;
}

}  // namespace pyslash
