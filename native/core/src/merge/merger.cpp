#include <algorithm>
#include <string>

#include "pane_loader.h"
#include "prefix_walk.h"
#include "pyslash/crc32c.h"
#include "pyslash/error.h"
#include "pyslash/merge.h"
#include "row_writer.h"
#include "segment_index.h"
#include "sliding_windows.h"
#include "window_runs.h"

namespace pyslash {
namespace {

constexpr uint64_t cached_groups = 16384;        // of which key table and one pane's states stay in a CPU's L2 cache
constexpr uint64_t fewest_groups = 256;          // below that, reading segments again and again costs more
constexpr uint64_t states_budget = 64ull << 20;  // bytes for the arrays of all panes of two windows

uint64_t groups_a_partition(const Plan& plan, size_t panes_at_hand) {
  const uint64_t panes = 2 * std::min<uint64_t>(static_cast<uint64_t>(plan.window().panes_per_window()), panes_at_hand);
  const uint64_t bytes = 16 * plan.states().size();
  return std::clamp(states_budget / std::max<uint64_t>(panes * bytes, 1), fewest_groups, cached_groups);
}

}  // namespace

class Merger::Impl {
 public:
  Impl(std::shared_ptr<const Plan> plan, std::span<const int64_t> starts, PrefixRange range,
       std::optional<int64_t> changed_in)
      : plan_(std::move(plan)),
        range_(range),
        changed_in_(changed_in),
        runs_(plan_->window(), starts),
        loader_(*plan_),
        sliding_(*plan_, index_, loader_),
        writer_(*plan_) {
    check_range(range);
  }

  uint64_t add(const Head& head, uint64_t offset, Bytes bytes);
  std::optional<RecordBatch> next(size_t max_rows);

 private:
  bool next_window();
  bool next_partition();
  bool next_run();
  void take_changes(std::span<const int64_t> windows);

  std::shared_ptr<const Plan> plan_;
  PrefixRange range_;
  std::optional<int64_t> changed_in_;  // none: every group is emitted
  WindowRuns runs_;
  SegmentIndex index_;
  PaneLoader loader_;
  SlidingWindows sliding_;
  RowWriter writer_;

  // Where next() stands.
  bool started_ = false;
  bool failed_ = false;
  size_t run_ = 0;  // the next one
  std::optional<PrefixWalk> walk_;
  bool in_partition_ = false;
  uint64_t largest_block_ = 0;  // groups of one block in a pane of the run
  double spread_ = 1;           // how many times more a run's partition held: blocks and panes differ in their keys
  const StateSet* states_ = nullptr;
  std::vector<uint32_t> groups_;  // of the window, present
  size_t emitted_ = 0;
};

uint64_t Merger::Impl::add(const Head& head, uint64_t offset, Bytes bytes) {
  if (started_) throw Error(Status::invalid_input, "a merger takes no more blocks once rows have been read from it");
  check_plan(head, *plan_);
  std::vector<SegmentBytes> wanted;  // none is taken unless all are sound, so a failed read can be added anew
  for (const SegmentEntry& entry : head.segments) {
    const std::optional<Bytes> held = segment_in(entry, offset, bytes);
    if (!held) continue;
    const SegmentBytes segment{entry, *held, head.header.epoch == changed_in_};
    if (!segment.overlaps(range_) || !runs_.hold(entry.pane)) continue;
    if (crc32c(segment.bytes.data(), segment.bytes.size()) != entry.crc) {
      throw Error(Status::corrupt_block, "the segment at byte " + std::to_string(entry.offset) +
                                             " of the block of epoch " + std::to_string(head.header.epoch) +
                                             " at arena offset " + std::to_string(head.header.arena_offset) +
                                             " fails its CRC");
    }
    wanted.push_back(segment);
  }
  uint64_t taken = 0;
  for (const SegmentBytes& segment : wanted) {
    index_[segment.entry.pane].push_back(segment);
    taken += segment.bytes.size();
  }
  return taken;
}

std::optional<RecordBatch> Merger::Impl::next(size_t max_rows) {
  if (max_rows == 0) throw Error(Status::invalid_input, "max_rows must be positive");
  if (failed_) throw Error(Status::invalid_input, "a merger that has failed gives no more rows");
  started_ = true;
  failed_ = true;  // until the end of this call: an error on the way leaves it between two rows
  RecordBatch batch = writer_.begin();
  while (batch.rows < max_rows) {
    if (emitted_ == groups_.size() && !next_window()) break;
    const size_t rows = writer_.append(batch, sliding_.window(), loader_.keys(), *states_,
                                       std::span(groups_).subspan(emitted_), max_rows);
    if (rows == 0) break;
    emitted_ += rows;
  }
  writer_.end(batch);
  failed_ = false;
  if (batch.rows == 0) return std::nullopt;
  return batch;
}

bool Merger::Impl::next_window() {
  for (;;) {
    if (!in_partition_ && !next_partition()) return false;
    while ((states_ = sliding_.next()) != nullptr) {
      if (changed_in_) {
        loader_.changed_groups(sliding_.window(), sliding_.window() + plan_->window().size_us(), groups_);
      } else {
        present_groups(*states_, groups_);
      }
      emitted_ = 0;
      if (!groups_.empty()) return true;
    }
    in_partition_ = false;
    const uint64_t groups = loader_.groups() - 1;
    if (largest_block_ != 0) {
      spread_ = std::max(
          1.0, static_cast<double>(PrefixWalk::scaled(walk_->current(), groups)) / static_cast<double>(largest_block_));
    }
    walk_->advance(groups);
  }
}

bool Merger::Impl::next_partition() {
  while (!walk_ || walk_->done()) {
    if (!next_run()) return false;
  }
  for (;;) {
    loader_.begin(walk_->current());
    if (changed_in_) take_changes(runs_[run_ - 1]);
    if (sliding_.begin(runs_[run_ - 1], walk_->limit())) break;
    walk_->shrink();
  }
  in_partition_ = true;
  return true;
}

// The groups of these windows that are to be emitted, before anything of them is loaded.
void Merger::Impl::take_changes(std::span<const int64_t> windows) {
  const int64_t end = windows.back() + plan_->window().size_us();
  for (const auto& [pane, segments] : panes_of(index_, windows.front(), end)) loader_.take_changes(segments);
}

// The next run that holds a segment.
bool Merger::Impl::next_run() {
  const int64_t size = plan_->window().size_us();
  while (run_ < runs_.size()) {
    const std::span<const int64_t> windows = runs_[run_++];
    largest_block_ = 0;
    const int64_t end = windows.back() + size;
    for (const auto& [pane, segments] : panes_of(index_, windows.front(), end)) {
      largest_block_ = std::max(largest_block_, expected_groups(segments));
    }
    if (largest_block_ == 0) continue;
    const auto expected = static_cast<uint64_t>(static_cast<double>(largest_block_) * spread_);
    walk_.emplace(range_, groups_a_partition(*plan_, index_.size()), expected);
    return true;
  }
  walk_.reset();
  return false;
}

Merger::Merger(std::shared_ptr<const Plan> plan, std::span<const int64_t> window_starts, uint64_t prefix_lo,
               uint64_t prefix_hi, std::optional<int64_t> changed_in)
    : impl_(std::make_unique<Impl>(std::move(plan), window_starts, PrefixRange{prefix_lo, prefix_hi}, changed_in)) {}
Merger::~Merger() = default;
Merger::Merger(Merger&&) noexcept = default;
Merger& Merger::operator=(Merger&&) noexcept = default;

uint64_t Merger::add(const Head& head, uint64_t offset, Bytes bytes) { return impl_->add(head, offset, bytes); }
std::optional<RecordBatch> Merger::next(size_t max_rows) { return impl_->next(max_rows); }

}  // namespace pyslash
