#include "pyslash/home.h"

#include <map>
#include <string>
#include <utility>

#include "home_groups.h"
#include "keyed_segment.h"
#include "pyslash/error.h"
#include "row_writer.h"
#include "segment_index.h"
#include "sessions/session_table.h"

namespace pyslash {

class Home::Impl {
 public:
  Impl(std::shared_ptr<const Plan> plan, PrefixRange range)
      : plan_(std::move(plan)), range_(range), segment_(*plan_), writer_(*plan_) {
    check_range(range);
    if (plan_->session()) sessions_.emplace(*plan_, segment_.codec());
  }

  const Plan& plan() const { return *plan_; }
  const std::string& version() const { return version_; }
  bool follows(const HomeUpdate& update) const { return !version_.empty() && version_ == update.before; }
  uint64_t advance(const HomeUpdate& update, std::span<const MappedBlock> blocks);
  std::optional<RecordBatch> next(Cursor& cursor, size_t max_rows);
  uint64_t groups() const;

 private:
  bool holds(const HomeUpdate& update, int64_t pane) const;
  uint64_t fold(const MappedBlock& block, const HomeUpdate& update);
  void settle_sessions(const HomeUpdate& update);
  void clear();
  void fold(int64_t pane, int64_t evicted_us, bool is_change);
  void evict(int64_t until_us);

  std::shared_ptr<const Plan> plan_;
  PrefixRange range_;
  std::string version_;
  std::map<int64_t, HomeGroups> windows_;  // by their start
  KeyedSegment segment_;
  RowWriter writer_;
  std::optional<SessionTable> sessions_;  // in the place of windows
  std::vector<uint32_t> emitted_;         // of them
};

uint64_t Home::Impl::advance(const HomeUpdate& update, std::span<const MappedBlock> blocks) {
  if (version_ == update.version) return 0;
  const bool is_next = follows(update);
  version_.clear();  // of no state until all is folded
  if (!is_next) clear();
  uint64_t bytes = 0;
  try {
    if (is_next) evict(update.evicted_us);
    const auto is_change = [&](const MappedBlock& block) { return block.head->header.epoch == update.epoch; };
    for (const MappedBlock& block : blocks) {
      if (!is_next && !is_change(block)) bytes += fold(block, update);
    }
    for (auto& [start, groups] : windows_) groups.settle();
    for (const MappedBlock& block : blocks) {
      if (is_change(block)) bytes += fold(block, update);
    }
    if (sessions_) settle_sessions(update);
  } catch (...) {
    clear();
    throw;
  }
  version_ = update.version;
  return bytes;
}

// By the time that old ones would be read, their sessions have been written anew into the pane that holds all.
bool Home::Impl::holds(const HomeUpdate& update, int64_t pane) const {
  return sessions_ ? pane == update.pane : !plan_->window().is_late(pane, update.evicted_us);
}

uint64_t Home::Impl::fold(const MappedBlock& block, const HomeUpdate& update) {
  check_plan(*block.head, *plan_);
  check_length(*block.head, block.bytes);
  uint64_t bytes = 0;
  for (const SegmentEntry& entry : block.head->segments) {
    const SegmentBytes segment{entry, block.bytes.subspan(entry.offset, entry.length)};
    if (!segment.overlaps(range_) || !holds(update, entry.pane)) continue;
    segment_.open(segment, range_);
    if (sessions_) {
      sessions_->stage(segment_);
    } else {
      fold(entry.pane, update.evicted_us, block.head->header.epoch == update.epoch);
    }
    bytes += entry.length;
  }
  return bytes;
}

// The open segment into every window that holds its pane.
void Home::Impl::fold(int64_t pane, int64_t evicted_us, bool is_change) {
  if (!segment_.whole() && segment_.rows().empty()) return;
  const Window& window = plan_->window();
  for (int64_t start = window.first_window_of(pane); start <= window.last_window_of(pane); start += window.slide_us()) {
    if (start + window.size_us() <= evicted_us) continue;
    windows_.try_emplace(start, *plan_, segment_.codec()).first->second.fold(segment_, is_change);
  }
}

// Those that had been emitted before go last where all blocks are read: until then some may yet be part of others.
void Home::Impl::settle_sessions(const HomeUpdate& update) {
  sessions_->settle();
  sessions_->evict(update.evicted_us);
  sessions_->collect_garbage();
  sessions_->sessions(update.closing_us, emitted_);
}

void Home::Impl::clear() {
  windows_.clear();
  emitted_.clear();
  if (sessions_) sessions_->clear();
}

void Home::Impl::evict(int64_t until_us) {
  if (sessions_) sessions_->evict(until_us);
  while (!windows_.empty() && windows_.begin()->first + plan_->window().size_us() <= until_us) {
    windows_.erase(windows_.begin());
  }
}

std::optional<RecordBatch> Home::Impl::next(Cursor& cursor, size_t max_rows) {
  if (max_rows == 0) throw Error(Status::invalid_input, "max_rows must be positive");
  RecordBatch batch = writer_.begin();
  if (sessions_) {
    const auto left = std::span<const uint32_t>(emitted_).subspan(cursor.group);
    cursor.group += writer_.append_sessions(batch, *sessions_, left, max_rows);
  }
  auto window = windows_.lower_bound(cursor.window);
  while (batch.rows < max_rows && window != windows_.end()) {
    auto& [start, groups] = *window;
    const std::span<const uint32_t> emitted = plan_->deduplicates() ? groups.added()
                                              : cursor.changed_only ? groups.changed()
                                                                    : groups.all();
    if (cursor.group == emitted.size()) {
      cursor.group = 0;
      cursor.window = start + 1;
      ++window;
      continue;
    }
    const size_t rows = writer_.append(batch, start, groups.keys(), groups.states(), emitted.subspan(cursor.group),
                                       max_rows, groups.first_state());
    if (rows == 0) break;
    cursor.window = start;
    cursor.group += rows;
  }
  writer_.end(batch);
  if (batch.rows == 0) return std::nullopt;
  return batch;
}

uint64_t Home::Impl::groups() const {
  uint64_t groups = sessions_ ? sessions_->size() : 0;
  for (const auto& [start, of_window] : windows_) groups += of_window.size();
  return groups;
}

Home::Home(std::shared_ptr<const Plan> plan, uint64_t prefix_lo, uint64_t prefix_hi)
    : impl_(std::make_unique<Impl>(std::move(plan), PrefixRange{prefix_lo, prefix_hi})) {}
Home::~Home() = default;
Home::Home(Home&&) noexcept = default;
Home& Home::operator=(Home&&) noexcept = default;

const Plan& Home::plan() const { return impl_->plan(); }
const std::string& Home::version() const { return impl_->version(); }
bool Home::follows(const HomeUpdate& update) const { return impl_->follows(update); }
uint64_t Home::advance(const HomeUpdate& update, std::span<const MappedBlock> blocks) {
  return impl_->advance(update, blocks);
}
std::optional<RecordBatch> Home::next(Cursor& cursor, size_t max_rows) { return impl_->next(cursor, max_rows); }
uint64_t Home::groups() const { return impl_->groups(); }

}  // namespace pyslash
