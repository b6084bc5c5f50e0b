#include "pyslash/compact.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>

#include "joins/join_segment.h"
#include "joins/row_log.h"
#include "pane_loader.h"
#include "prefix_walk.h"
#include "pyslash/block.h"
#include "pyslash/crc32c.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"
#include "pyslash/record_batch.h"
#include "segment_index.h"
#include "sessions/session_table.h"

namespace pyslash {
namespace {

// The new block's segments, in order, offsets counting from the first one.
struct Body {
  std::vector<SegmentEntry> entries;
  Buffer bytes;
  uint64_t groups = 0;
};

// Groups of which a partition is made. More than a segment's: every segment of an input that is wider than a partition
// is read for each of them again.
constexpr uint64_t folded_groups = 2 * segment_groups;

// Groups into segments of the new block.
class SegmentCutter {
 public:
  SegmentCutter(const GroupKeys& keys, const StateSet& states, Body& body)
      : keys_(keys), writer_(keys, states), body_(body) {}

  // A partition's groups.
  void cut(int64_t pane, PrefixRange partition, std::span<const uint32_t> groups) {
    const uint64_t pieces = segments_of(groups.size(), partition.hi - partition.lo);
    const uint64_t width = (partition.hi - partition.lo) / pieces;
    cut_.resize(pieces);
    for (auto& piece : cut_) piece.clear();
    for (const uint32_t group : groups) {
      cut_[(prefix_of(keys_.hash(group)) - partition.lo) / width].push_back(group);
    }
    for (uint64_t i = 0; i < pieces; ++i) {
      if (!cut_[i].empty()) append(pane, {partition.lo + i * width, partition.lo + (i + 1) * width}, cut_[i]);
    }
  }

 private:
  void append(int64_t pane, PrefixRange range, const std::vector<uint32_t>& groups) {
    SegmentEntry entry{};
    entry.pane = pane;
    entry.prefix_lo = static_cast<uint32_t>(range.lo);
    entry.prefix_bits = bits_of(range);
    entry.rows = static_cast<uint32_t>(groups.size());
    entry.offset = body_.bytes.size();
    entry.length = writer_.measure(groups, lengths_);
    const std::span<uint8_t> out(body_.bytes.extend(entry.length), entry.length);
    writer_.write(groups, lengths_, out);
    entry.crc = crc32c(out.data(), out.size());
    body_.entries.push_back(entry);
    body_.groups += groups.size();
  }

  const GroupKeys& keys_;
  SegmentWriter writer_;
  Body& body_;
  std::vector<std::vector<uint32_t>> cut_;
  std::vector<uint64_t> lengths_;
};

// Folds pane after pane, and of each a partition of prefixes at a time, which becomes one segment or a few: only the
// result and one partition are ever in memory beside the inputs.
class Folder {
 public:
  virtual ~Folder() = default;
  virtual void fold(int64_t pane, const std::vector<SegmentBytes>& segments) = 0;

  Body body;

 protected:
  explicit Folder(PrefixShare share) : share_(share) {}

  // Over the share; `expected`: groups, or rows, of all prefixes.
  PrefixWalk walk(uint64_t expected) const {
    const uint64_t width = all_prefixes / share_.of;
    return PrefixWalk({share_.index * width, (share_.index + 1) * width}, folded_groups, expected);
  }

 private:
  PrefixShare share_;
};

class GroupFolder final : public Folder {
 public:
  GroupFolder(const Plan& plan, PrefixShare share)
      : Folder(share), loader_(plan), states_(plan), cutter_(loader_.keys(), states_, body) {}

  void fold(int64_t pane, const std::vector<SegmentBytes>& segments) override {
    PrefixWalk walk = this->walk(expected_groups(segments));
    while (!walk.done()) {
      const PrefixRange partition = walk.current();
      loader_.begin(partition);
      states_.reset(0);
      loader_.load(segments, states_);
      if (loader_.groups() > walk.limit()) {
        walk.shrink();
        continue;
      }
      present_groups(states_, groups_);
      cutter_.cut(pane, partition, groups_);
      walk.advance(groups_.size());
    }
  }

 private:
  PaneLoader loader_;
  StateSet states_;
  SegmentCutter cutter_;
  std::vector<uint32_t> groups_;
};

// Parts of sessions are joined only where it is certain that they belong together: other agents have others.
class SessionFolder final : public Folder {
 public:
  SessionFolder(const Plan& plan, PrefixShare share)
      : Folder(share), segment_(plan), table_(plan, segment_.codec()), cutter_(table_.keys(), table_.states(), body) {}

  void fold(int64_t pane, const std::vector<SegmentBytes>& segments) override {
    uint64_t expected = 0;  // of all blocks: a key may have many parts
    for (const SegmentBytes& segment : segments) expected += segment.entry.rows;
    PrefixWalk walk = this->walk(expected);
    for (; !walk.done(); walk.advance(groups_.size())) {
      const PrefixRange partition = walk.current();
      table_.clear();
      for (const SegmentBytes& segment : segments) {
        if (!segment.overlaps(partition)) continue;
        segment_.open(segment, partition);
        table_.stage(segment_);
      }
      table_.settle_apart();
      table_.sessions(INT64_MAX, groups_);
      cutter_.cut(pane, partition, groups_);
    }
  }

 private:
  KeyedSegment segment_;
  SessionTable table_;
  SegmentCutter cutter_;
  std::vector<uint32_t> groups_;
};

// Rows of a join are no fewer afterwards, but lie together.
class JoinFolder final : public Folder {
 public:
  JoinFolder(const Plan& plan, PrefixShare share) : Folder(share), segment_(plan), log_(plan.columns()) {}

  void fold(int64_t pane, const std::vector<SegmentBytes>& segments) override {
    uint64_t expected = 0;
    for (const SegmentBytes& segment : segments) expected += segment.entry.rows;
    PrefixWalk walk = this->walk(expected);
    for (; !walk.done(); walk.advance(log_.rows())) {
      const PrefixRange partition = walk.current();
      log_.clear();
      for (const SegmentBytes& segment : segments) {
        if (!segment.overlaps(partition)) continue;
        segment_.open(segment, partition);
        log_.append(segment_.batch(), segment_.hashes(), segment_.rows());
      }
      for (const RowSegment& segment : log_.cut(pane, partition)) append(segment);
    }
  }

 private:
  void append(const RowSegment& segment) {
    SegmentEntry entry = segment.entry;
    entry.offset = body.bytes.size();
    const std::span<uint8_t> out(body.bytes.extend(entry.length), entry.length);
    log_.write(segment, out);
    entry.crc = crc32c(out.data(), out.size());
    body.entries.push_back(entry);
    body.groups += entry.rows;
  }

  JoinSegment segment_;
  RowLog log_;
};

std::unique_ptr<Folder> folder_of(const Plan& plan, PrefixShare share) {
  if (plan.joins()) return std::make_unique<JoinFolder>(plan, share);
  if (plan.session()) return std::make_unique<SessionFolder>(plan, share);
  return std::make_unique<GroupFolder>(plan, share);
}

// A block in the arena whose head has been checked.
struct Input {
  Head head;
  Bytes bytes;
};

Input open(const Plan& plan, const Arena& arena, const std::map<uint64_t, ArenaBlock>& blocks, uint64_t offset) {
  const auto found = blocks.find(offset);
  const bool readable = found != blocks.end() &&
                        (found->second.state == BlockState::published || found->second.state == BlockState::committed);
  if (!readable) {
    throw Error(Status::invalid_input, "the arena holds no published block at offset " + std::to_string(offset));
  }
  const Bytes bytes = arena.view(offset, found->second.length);
  Head head = read_head(bytes);
  if (plan.joins()) {
    check_made_by(head, plan);
  } else {
    check_plan(head, plan);
  }
  if (head.header.arena_offset != offset || head.header.length != bytes.size()) {
    throw Error(Status::corrupt_block, "the block at offset " + std::to_string(offset) + " says it has " +
                                           std::to_string(head.header.length) + " bytes at offset " +
                                           std::to_string(head.header.arena_offset) + ", but " +
                                           std::to_string(bytes.size()) + " were allocated for it");
  }
  return {std::move(head), bytes};
}

// Frees the block again unless it was published.
class Allocation {
 public:
  Allocation(Arena& arena, uint64_t length, const BlockIdentity& identity)
      : arena_(arena), offset_(arena.allocate(length, identity.query, identity.epoch)) {}
  ~Allocation() {
    if (!published_) arena_.free(offset_);
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  uint64_t offset() const { return offset_; }
  void publish() {
    published_ = true;  // publish() itself frees a block that it refuses
    arena_.publish(offset_);
  }

 private:
  Arena& arena_;
  uint64_t offset_;
  bool published_ = false;
};

Header total(std::span<const Input> inputs, bool counts_rows) {
  Header header{};
  header.max_event_time = INT64_MIN;
  for (const Input& input : inputs) {
    if (counts_rows) {
      header.rows += input.head.header.rows;
      header.late_rows += input.head.header.late_rows;
    }
    header.max_event_time = std::max(header.max_event_time, input.head.header.max_event_time);
  }
  return header;
}

}  // namespace

std::vector<uint8_t> compact(std::shared_ptr<const Plan> plan, Arena& arena, std::span<const uint64_t> offsets,
                             int64_t first_live_pane, const BlockIdentity& identity, PrefixShare share) {
  if (!std::has_single_bit(share.of) || share.index >= share.of) {
    throw Error(Status::invalid_input, "no share " + std::to_string(share.index) + " of " + std::to_string(share.of) +
                                           ": a power of two, and less than it");
  }
  std::map<uint64_t, ArenaBlock> blocks;
  for (const ArenaBlock& block : arena.blocks()) blocks.emplace(block.offset, block);
  std::vector<Input> inputs;
  for (const uint64_t offset : offsets) inputs.push_back(open(*plan, arena, blocks, offset));

  SegmentIndex index;
  for (const Input& input : inputs) {
    for (const SegmentEntry& entry : input.head.segments) {
      if (entry.pane < first_live_pane) continue;
      index[entry.pane].push_back({entry, input.bytes.subspan(entry.offset, entry.length)});
    }
  }
  if (index.empty()) return {};

  const std::unique_ptr<Folder> folder = folder_of(*plan, share);
  uint64_t input_bytes = 0;
  for (const auto& [pane, segments] : index) {
    for (const SegmentBytes& segment : segments) input_bytes += segment.bytes.size();
  }
  folder->body.bytes.reserve(input_bytes / share.of);  // seldom exceeded; what is not touched takes no memory
  for (const auto& [pane, segments] : index) folder->fold(pane, segments);
  const Body& body = folder->body;
  if (body.entries.empty()) return {};

  const size_t head_bytes = head_length(body.entries.size(), plan->text().size());
  Allocation block(arena, head_bytes + body.bytes.size(), identity);
  Head head{.header = total(inputs, share.index == 0), .segments = body.entries, .plan_text = plan->text()};
  for (SegmentEntry& entry : head.segments) entry.offset += head_bytes;
  head.header.query = identity.query;
  head.header.epoch = identity.epoch;
  head.header.attempt = identity.attempt;
  head.header.incarnation = arena.incarnation();
  head.header.arena_offset = block.offset();
  head.header.length = head_bytes + body.bytes.size();
  head.header.groups = body.groups;
  const std::vector<uint8_t> raw = write_head(head);
  std::memcpy(arena.data() + block.offset(), raw.data(), raw.size());
  std::memcpy(arena.data() + block.offset() + raw.size(), body.bytes.data(), body.bytes.size());
  block.publish();
  return raw;
}

}  // namespace pyslash
