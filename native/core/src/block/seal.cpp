#include "pyslash/seal.h"

#include <algorithm>
#include <bit>

#include "pyslash/arena.h"
#include "pyslash/crc32c.h"
#include "pyslash/hash.h"
#include "pyslash/segment.h"

namespace pyslash {
namespace {

uint32_t bucket_of(uint64_t hash, uint32_t bits) { return bits == 0 ? 0 : prefix_of(hash) >> (32 - bits); }

// Groups in order of their bucket, by counting; returns where each bucket begins, and the end.
std::vector<size_t> order_by_bucket(PaneGroups& pane, uint32_t bits) {
  std::vector<size_t> begin((size_t{1} << bits) + 1, 0);
  for (const uint32_t group : pane.groups) ++begin[bucket_of(pane.keys->hash(group), bits) + 1];
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  if (bits == 0) return begin;
  std::vector<uint32_t> ordered(pane.groups.size());
  std::vector<size_t> next(begin.begin(), begin.end() - 1);
  for (const uint32_t group : pane.groups) ordered[next[bucket_of(pane.keys->hash(group), bits)]++] = group;
  pane.groups = std::move(ordered);
  return begin;
}

}  // namespace

uint64_t segments_of(uint64_t groups, uint64_t prefixes) {
  constexpr uint64_t shared = uint64_t{1} << (32 - shared_prefix_bits);
  const uint64_t most = std::min(prefixes, uint64_t{1} << max_prefix_bits);
  uint64_t pieces = 1;
  while (groups > pieces * segment_groups && pieces < most) pieces *= 2;
  while (groups >= 2 * pieces * smallest_segment_groups && prefixes / pieces > shared) pieces *= 2;
  return pieces;
}

BlockWriter::BlockWriter(const Plan& plan, std::vector<PaneGroups> panes) : plan_(plan), panes_(std::move(panes)) {
  for (size_t pane = 0; pane < panes_.size(); ++pane) cut(pane);
  if (entries_.empty()) return;
  uint64_t at = head_length(entries_.size(), plan_.text().size());
  for (SegmentEntry& entry : entries_) {
    entry.offset = at;
    at += entry.length;
  }
  bytes_ = at;
}

void BlockWriter::cut(size_t pane) {
  PaneGroups& groups = panes_[pane];
  if (groups.groups.empty()) return;
  groups_ += groups.groups.size();
  const uint32_t bits = std::countr_zero(segments_of(groups.groups.size(), uint64_t{1} << 32));
  const std::vector<size_t> begin = order_by_bucket(groups, bits);
  const SegmentWriter writer(*groups.keys, *groups.states);
  for (size_t bucket = 0; bucket + 1 < begin.size(); ++bucket) {
    const size_t rows = begin[bucket + 1] - begin[bucket];
    if (rows == 0) continue;
    Segment segment{pane, begin[bucket], {}};
    SegmentEntry entry{};
    entry.pane = groups.pane;
    entry.prefix_lo = bits == 0 ? 0 : static_cast<uint32_t>(bucket) << (32 - bits);
    entry.prefix_bits = bits;
    entry.rows = static_cast<uint32_t>(rows);
    entry.length = writer.measure(std::span(groups.groups).subspan(segment.first, rows), segment.lengths);
    segments_.push_back(std::move(segment));
    entries_.push_back(entry);
  }
}

std::vector<uint8_t> BlockWriter::write(std::span<uint8_t> out, const BlockIdentity& identity,
                                        const std::array<uint8_t, 16>& incarnation, uint64_t arena_offset,
                                        const BlockFigures& figures) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const PaneGroups& pane = panes_[segments_[i].pane];
    SegmentEntry& entry = entries_[i];
    const std::span<uint8_t> bytes = out.subspan(entry.offset, entry.length);
    SegmentWriter(*pane.keys, *pane.states)
        .write(std::span(pane.groups).subspan(segments_[i].first, entry.rows), segments_[i].lengths, bytes);
    entry.crc = crc32c(bytes.data(), bytes.size());
  }
  Head head{};
  head.header.query = identity.query;
  head.header.incarnation = incarnation;
  head.header.epoch = identity.epoch;
  head.header.attempt = identity.attempt;
  head.header.arena_offset = arena_offset;
  head.header.length = bytes_;
  head.header.groups = groups_;
  head.header.rows = static_cast<uint64_t>(figures.rows);
  head.header.late_rows = static_cast<uint64_t>(figures.late_rows);
  head.header.max_event_time = figures.max_event_time;
  head.segments = entries_;
  head.plan_text = plan_.text();
  std::vector<uint8_t> bytes = write_head(head);
  if (bytes_ != 0) std::memcpy(out.data(), bytes.data(), bytes.size());
  return bytes;
}

std::vector<uint8_t> seal(const Accumulator& accumulator, Arena& arena, const BlockIdentity& identity) {
  BlockWriter writer(accumulator.plan(), accumulator.panes());
  const BlockFigures figures{accumulator.rows(), accumulator.late_rows(), accumulator.max_event_time()};
  if (writer.bytes() == 0) return writer.write({}, identity, arena.incarnation(), 0, figures);
  return publish_block(arena, writer.bytes(), identity, [&](std::span<uint8_t> out, uint64_t offset) {
    return writer.write(out, identity, arena.incarnation(), offset, figures);
  });
}

std::vector<uint8_t> publish_block(
    Arena& arena, uint64_t bytes, const BlockIdentity& identity,
    const std::function<std::vector<uint8_t>(std::span<uint8_t> out, uint64_t offset)>& write) {
  const uint64_t offset = arena.allocate(bytes, identity.query, identity.epoch);
  std::vector<uint8_t> head;
  try {
    head = write({arena.data() + offset, bytes}, offset);
  } catch (...) {
    arena.free(offset);
    throw;
  }
  arena.publish(offset);  // a block that it refuses is free already, and may be another writer's by now
  return head;
}

}  // namespace pyslash
