#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "joins/join_segment.h"
#include "joins/join_table.h"
#include "merge/segment_index.h"
#include "pyslash/error.h"
#include "pyslash/join.h"

namespace pyslash {
namespace {

constexpr int64_t buckets_a_pane = 16;
// A slot is fetched so many searches ahead, and the row that it leads to half as many.
constexpr size_t prefetch_distance = 16;

// What a search looks for, and where.
struct Search {
  const JoinTable& table;
  uint64_t hash;
};

// Before search `at` of `count`: fetches what later ones will look at. `search(i)` is search i.
template <typename SearchOf>
void prefetch(size_t at, size_t count, const SearchOf& search) {
  if (at + prefetch_distance < count) {
    const Search later = search(at + prefetch_distance);
    later.table.prefetch_slot(later.hash);
  }
  if (at + prefetch_distance / 2 < count) {
    const Search next = search(at + prefetch_distance / 2);
    next.table.prefetch_row(next.hash);
  }
}

}  // namespace

class JoinHome::Impl {
 public:
  Impl(std::shared_ptr<const Plan> plan, PrefixRange range, JoinKind kind, JoinShapes shapes)
      : plan_(std::move(plan)),
        range_(range),
        kind_(kind),
        shapes_(std::move(shapes)),
        segment_(*plan_),
        kept_{JoinTable(bucket_us()), JoinTable(bucket_us())} {
    check_range(range);
    if (!plan_->joins()) throw Error(Status::invalid_plan, "the plan is of no join");
  }

  const Plan& plan() const { return *plan_; }
  const JoinShapes& shapes() const { return shapes_; }
  const std::string& version() const { return version_; }
  uint64_t rows() const { return kept_[left_side].rows() + kept_[right_side].rows(); }
  bool follows(const HomeUpdate& update) const {
    return !version_.empty() && version_ == update.before && (is_seen_ || !kind_.remembers);
  }
  uint64_t advance(const HomeUpdate& update, std::span<const MappedBlock> blocks);
  JoinPhase next(Cursor& cursor, size_t most, std::vector<RowPair>& pairs);

 private:
  int64_t bucket_us() const { return std::max<int64_t>(1, plan_->window().pane_us() / buckets_a_pane); }
  uint64_t read(const MappedBlock& block, bool follows);
  void take(uint32_t row, bool follows);
  void check(size_t side, const KeptRow& kept) const;
  void clear();
  bool is_new(const KeptRow& row) const { return row.epoch == epoch_; }
  // Whether it was there when the epoch began.
  bool was_kept(const KeptRow& row) const { return !is_new(row) && row.expires > evicted_us_; }

  void remembered(Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const;
  void with_new(JoinSide side, Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const;
  void alone(Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const;
  void evicted(JoinSide side, Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const;

  std::shared_ptr<const Plan> plan_;
  PrefixRange range_;
  JoinKind kind_;
  JoinShapes shapes_;
  std::string version_;
  int64_t epoch_ = 0;
  int64_t evicted_us_ = 0;
  int64_t closing_us_ = 0;
  bool forgets_ = false;  // which rows have joined before this epoch is not known yet
  bool is_seen_ = false;  // a reader has had all pairs of the epoch, and said which ones join
  JoinSegment segment_;
  std::array<JoinTable, 2> kept_;                     // by side
  std::array<std::vector<const KeptRow*>, 2> new_;    // by side: those of the epoch
  std::array<std::vector<const KeptRow*>, 2> alone_;  // likewise
  Chunks alone_memory_;
};

uint64_t JoinHome::Impl::advance(const HomeUpdate& update, std::span<const MappedBlock> blocks) {
  if (version_ == update.version && !version_.empty()) return 0;
  const bool is_next = follows(update);
  version_.clear();  // of no state until all is read
  uint64_t bytes = 0;
  try {
    if (is_next) {
      for (JoinTable& kept : kept_) kept.evict(update.evicted_us);
    } else {
      for (JoinTable& kept : kept_) kept.clear();
    }
    for (auto* rows : {&new_, &alone_}) (*rows)[left_side].clear(), (*rows)[right_side].clear();
    alone_memory_ = {};
    epoch_ = update.epoch;
    evicted_us_ = update.evicted_us;
    closing_us_ = update.closing_us;
    forgets_ = kind_.remembers && !is_next;
    is_seen_ = false;
    for (const MappedBlock& block : blocks) {
      if (!is_next || block.head->header.epoch == update.epoch) bytes += read(block, is_next);
    }
  } catch (...) {
    clear();
    throw;
  }
  version_ = update.version;
  return bytes;
}

void JoinHome::Impl::clear() {
  for (const JoinSide side : {left_side, right_side}) {
    kept_[side].clear();
    new_[side].clear();
    alone_[side].clear();
  }
  alone_memory_ = {};
}

uint64_t JoinHome::Impl::read(const MappedBlock& block, bool follows) {
  check_made_by(*block.head, *plan_);
  check_length(*block.head, block.bytes);
  uint64_t bytes = 0;
  for (const SegmentEntry& entry : block.head->segments) {
    const SegmentBytes segment{entry, block.bytes.subspan(entry.offset, entry.length)};
    if (!segment.overlaps(range_)) continue;
    segment_.open(segment, range_);
    const std::span<const uint32_t> rows = segment_.rows();
    const auto search = [&](size_t i) {
      const auto side = static_cast<size_t>(segment_.value<int8_t>(join_side, rows[i]));
      return Search{kept_[side % kept_.size()], segment_.hashes()[rows[i]]};
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      prefetch(i, rows.size(), search);
      take(rows[i], follows);
    }
    bytes += entry.length;
  }
  return bytes;
}

void JoinHome::Impl::take(uint32_t row, bool follows) {
  KeptRow kept{};
  kept.hash = segment_.hashes()[row];
  kept.expires = segment_.value<int64_t>(join_expires, row);
  kept.epoch = segment_.value<int64_t>(join_epoch, row);
  kept.evicted = segment_.value<int64_t>(join_evicted, row);
  kept.matched = KeptRow::never;
  const auto side = segment_.value<int8_t>(join_side, row);
  const auto key = segment_.value<BytesRef>(join_key, row);
  const auto bytes = segment_.value<BytesRef>(join_row, row);
  if (side < left_side || side > right_alone) {
    throw Error(Status::corrupt_block, "a row of a join is of the side " + std::to_string(side));
  }
  if (kept.epoch > epoch_ || (follows && !is_new(kept))) {
    throw Error(Status::corrupt_block, "a row of epoch " + std::to_string(kept.epoch) + " is in a block of epoch " +
                                           std::to_string(epoch_) + " or before");
  }
  if (side == left_alone || side == right_alone) {
    if (!is_new(kept)) return;
    kept.row_bytes = static_cast<uint32_t>(bytes.size);
    uint8_t* memory = alone_memory_.extend(sizeof(KeptRow) + align_up(bytes.size, 8));
    alone_[side - left_alone].push_back(new (memory) KeptRow(kept));
    if (bytes.size != 0) std::memcpy(memory + sizeof(KeptRow), bytes.data, bytes.size);
    check(static_cast<size_t>(side - left_alone), *alone_[static_cast<size_t>(side - left_alone)].back());
    return;
  }
  // What has been evicted tells which rows have joined, and is of no other use.
  if (!forgets_ && !is_new(kept) && !was_kept(kept)) return;
  const KeptRow* taken = kept_[static_cast<size_t>(side)].insert(kept, key, bytes);
  check(static_cast<size_t>(side), *taken);
  if (is_new(kept)) new_[static_cast<size_t>(side)].push_back(taken);
}

// Of the copy that is kept: the block's own bytes may change.
void JoinHome::Impl::check(size_t side, const KeptRow& kept) const {
  (side == left_side ? shapes_.left : shapes_.right).check({kept.row(), kept.row_bytes});
}

JoinPhase JoinHome::Impl::next(Cursor& cursor, size_t most, std::vector<RowPair>& pairs) {
  if (most == 0) throw Error(Status::invalid_input, "there must be room for a pair");
  pairs.clear();
  while (cursor.phase != JoinPhase::done) {
    switch (cursor.phase) {
      case JoinPhase::remembered:
        if (forgets_) remembered(cursor, most, pairs);
        break;
      case JoinPhase::left_new:
        with_new(left_side, cursor, most, pairs);
        break;
      case JoinPhase::right_new:
        with_new(right_side, cursor, most, pairs);
        break;
      case JoinPhase::alone:
        alone(cursor, most, pairs);
        break;
      case JoinPhase::left_evicted:
        if (kind_.left_outer) evicted(left_side, cursor, most, pairs);
        break;
      case JoinPhase::right_evicted:
        if (kind_.right_outer) evicted(right_side, cursor, most, pairs);
        break;
      case JoinPhase::done:
        break;
    }
    if (!pairs.empty()) return cursor.phase;
    if (cursor.phase == JoinPhase::remembered) forgets_ = false;
    if (cursor.phase == JoinPhase::right_new) is_seen_ = true;
    cursor = {.phase = static_cast<JoinPhase>(static_cast<int64_t>(cursor.phase) + 1)};
  }
  return JoinPhase::done;
}

// Of each two rows the later one has found the earlier one if that had not been evicted when it came; the rows of one
// epoch find each other, unless the right one is passing.
void JoinHome::Impl::remembered(Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const {
  const auto met = [](const KeptRow& left, const KeptRow& right) {
    if (left.epoch == right.epoch) return right.expires != KeptRow::passing;
    return left.epoch < right.epoch ? left.expires > right.evicted : right.expires > left.evicted;
  };
  JoinTable::Position position{cursor.bucket, cursor.row};
  while (pairs.size() < most) {
    if (cursor.with == nullptr) {
      const KeptRow* right = kept_[right_side].next(position, INT64_MAX);
      if (right == nullptr) break;
      if (is_new(*right)) continue;
      cursor.of = right;
      cursor.with = kept_[left_side].find(right->hash, right->key());
      continue;
    }
    const auto& right = *static_cast<const KeptRow*>(cursor.of);
    const auto& left = *static_cast<const KeptRow*>(cursor.with);
    cursor.with = left.next;
    if (!is_new(left) && met(left, right)) pairs.push_back({left.row(), right.row()});
  }
  cursor.bucket = position.bucket;
  cursor.row = position.row;
}

// The pairs of new rows of this side with rows of the other one: of the left side with those that were there before, of
// the right side with those that have come since, too, unless it is passing.
void JoinHome::Impl::with_new(JoinSide side, Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const {
  const std::vector<const KeptRow*>& rows = new_[side];
  const JoinTable& others = kept_[side == left_side ? right_side : left_side];
  while (pairs.size() < most) {
    if (cursor.with == nullptr) {
      if (cursor.row == rows.size()) return;
      prefetch(cursor.row, rows.size(), [&](size_t i) { return Search{others, rows[i]->hash}; });
      const KeptRow* row = rows[cursor.row++];
      cursor.of = row;
      cursor.with = others.find(row->hash, row->key());
      continue;
    }
    const auto& row = *static_cast<const KeptRow*>(cursor.of);
    const auto& other = *static_cast<const KeptRow*>(cursor.with);
    cursor.with = other.next;
    if (side == left_side) {
      if (was_kept(other)) pairs.push_back({row.row(), other.row()});
    } else if (is_new(other) ? row.expires != KeptRow::passing : was_kept(other)) {
      pairs.push_back({other.row(), row.row()});
    }
  }
}

void JoinHome::Impl::alone(Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const {
  const size_t of_left = alone_[left_side].size();
  for (; pairs.size() < most && cursor.row < of_left + alone_[right_side].size(); ++cursor.row) {
    if (cursor.row < of_left) {
      pairs.push_back({alone_[left_side][cursor.row]->row(), nullptr});
    } else {
      pairs.push_back({nullptr, alone_[right_side][cursor.row - of_left]->row()});
    }
  }
}

void JoinHome::Impl::evicted(JoinSide side, Cursor& cursor, size_t most, std::vector<RowPair>& pairs) const {
  JoinTable::Position position{cursor.bucket, cursor.row};
  while (pairs.size() < most) {
    const KeptRow* row = kept_[side].next(position, closing_us_);
    if (row == nullptr) break;
    const bool is_evicted = row->expires <= closing_us_ && (is_new(*row) || was_kept(*row));
    if (!is_evicted || row->matched != KeptRow::never) continue;
    pairs.push_back(side == left_side ? RowPair{row->row(), nullptr} : RowPair{nullptr, row->row()});
  }
  cursor.bucket = position.bucket;
  cursor.row = position.row;
}

JoinHome::JoinHome(std::shared_ptr<const Plan> plan, uint64_t prefix_lo, uint64_t prefix_hi, JoinKind kind,
                   JoinShapes shapes)
    : impl_(std::make_unique<Impl>(std::move(plan), PrefixRange{prefix_lo, prefix_hi}, kind, std::move(shapes))) {}
JoinHome::~JoinHome() = default;
JoinHome::JoinHome(JoinHome&&) noexcept = default;
JoinHome& JoinHome::operator=(JoinHome&&) noexcept = default;

const Plan& JoinHome::plan() const { return impl_->plan(); }
const JoinShapes& JoinHome::shapes() const { return impl_->shapes(); }
const std::string& JoinHome::version() const { return impl_->version(); }
bool JoinHome::follows(const HomeUpdate& update) const { return impl_->follows(update); }
uint64_t JoinHome::advance(const HomeUpdate& update, std::span<const MappedBlock> blocks) {
  return impl_->advance(update, blocks);
}
JoinPhase JoinHome::next(Cursor& cursor, size_t most, std::vector<RowPair>& pairs) {
  return impl_->next(cursor, most, pairs);
}
uint64_t JoinHome::rows() const { return impl_->rows(); }

}  // namespace pyslash
