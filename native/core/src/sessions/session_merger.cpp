#include "merge/row_writer.h"
#include "merge/segment_index.h"
#include "pyslash/error.h"
#include "pyslash/session_merge.h"
#include "sessions/session_table.h"

namespace pyslash {

namespace {

std::shared_ptr<const Plan> of_sessions(std::shared_ptr<const Plan> plan) {
  if (!plan->session()) throw Error(Status::invalid_plan, "the plan is none of sessions");
  return plan;
}

}  // namespace

class SessionMerger::Impl {
 public:
  Impl(std::shared_ptr<const Plan> plan, const SessionRange& range)
      : plan_(of_sessions(std::move(plan))),
        range_(range),
        segment_(*plan_),
        table_(*plan_, segment_.codec()),
        writer_(*plan_) {
    check_range(prefixes());
  }

  uint64_t add(const Head& head, uint64_t offset, Bytes bytes) {
    if (settled_) throw Error(Status::invalid_input, "a merger takes no more blocks once it has been read from");
    check_plan(head, *plan_);
    uint64_t taken = 0;
    for (const SegmentEntry& entry : head.segments) {
      if (entry.pane != range_.pane) continue;
      const std::optional<Bytes> held = segment_in(entry, offset, bytes);
      if (!held) continue;
      const SegmentBytes segment{entry, *held};
      if (!segment.overlaps(prefixes())) continue;
      segment_.open(segment, prefixes());
      table_.stage(segment_);
      taken += entry.length;
    }
    return taken;
  }

  std::optional<RecordBatch> next(size_t max_rows) {
    if (max_rows == 0) throw Error(Status::invalid_input, "max_rows must be positive");
    settle();
    RecordBatch batch = writer_.begin();
    emitted_ += writer_.append_sessions(batch, table_, std::span(wanted_).subspan(emitted_), max_rows);
    writer_.end(batch);
    if (batch.rows == 0) return std::nullopt;
    return batch;
  }

  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity) {
    settle();
    // They come to the place with its epoch: what has been emitted before takes no part in them.
    for (const uint32_t slot : wanted_) bounds_of(table_.states()).borns[slot] = plan_->place().evicted_us;
    BlockWriter writer(*plan_, {{plan_->place().pane, &table_.keys(), &table_.states(), wanted_}});
    const BlockFigures none{0, 0, INT64_MIN};
    if (writer.bytes() == 0) return writer.write({}, identity, arena.incarnation(), 0, none);
    return publish_block(arena, writer.bytes(), identity, [&](std::span<uint8_t> out, uint64_t at) {
      return writer.write(out, identity, arena.incarnation(), at, none);
    });
  }

 private:
  PrefixRange prefixes() const { return {range_.prefix_lo, range_.prefix_hi}; }

  void settle() {
    if (settled_) return;
    settled_ = true;
    table_.settle();
    table_.evict(range_.evicted_us);
    table_.sessions(range_.closing_us, wanted_);
  }

  std::shared_ptr<const Plan> plan_;
  SessionRange range_;
  KeyedSegment segment_;
  SessionTable table_;
  RowWriter writer_;
  bool settled_ = false;
  std::vector<uint32_t> wanted_;
  size_t emitted_ = 0;
};

SessionMerger::SessionMerger(std::shared_ptr<const Plan> plan, const SessionRange& range)
    : impl_(std::make_unique<Impl>(std::move(plan), range)) {}
SessionMerger::~SessionMerger() = default;
SessionMerger::SessionMerger(SessionMerger&&) noexcept = default;
SessionMerger& SessionMerger::operator=(SessionMerger&&) noexcept = default;

uint64_t SessionMerger::add(const Head& head, uint64_t offset, Bytes bytes) { return impl_->add(head, offset, bytes); }
std::optional<RecordBatch> SessionMerger::next(size_t max_rows) { return impl_->next(max_rows); }
std::vector<uint8_t> SessionMerger::seal(Arena& arena, const BlockIdentity& identity) {
  return impl_->seal(arena, identity);
}

}  // namespace pyslash
