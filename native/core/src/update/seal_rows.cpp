#include "update/seal_rows.h"

#include <algorithm>
#include <utility>

#include "pyslash/arena.h"
#include "pyslash/crc32c.h"

namespace pyslash {

std::vector<uint8_t> seal_rows(const Plan& plan, Arena& arena, const BlockIdentity& identity,
                               std::vector<SegmentEntry> segments, const BlockFigures& figures,
                               const std::function<void(size_t segment, std::span<uint8_t> out)>& write) {
  Head head{};
  head.segments = std::move(segments);
  head.plan_text = plan.text();
  uint64_t bytes = head_length(head.segments.size(), plan.text().size());
  for (SegmentEntry& entry : head.segments) {
    entry.offset = bytes;
    bytes += entry.length;
  }
  head.header.query = identity.query;
  head.header.incarnation = arena.incarnation();
  head.header.epoch = identity.epoch;
  head.header.attempt = identity.attempt;
  head.header.groups = static_cast<uint64_t>(figures.rows);
  head.header.rows = static_cast<uint64_t>(figures.rows);
  head.header.late_rows = static_cast<uint64_t>(figures.late_rows);
  head.header.max_event_time = figures.max_event_time;
  if (head.segments.empty()) return write_head(head);
  head.header.length = bytes;
  return publish_block(arena, bytes, identity, [&](std::span<uint8_t> out, uint64_t offset) {
    for (size_t i = 0; i < head.segments.size(); ++i) {
      SegmentEntry& entry = head.segments[i];
      const std::span<uint8_t> segment = out.subspan(entry.offset, entry.length);
      write(i, segment);
      entry.crc = crc32c(segment.data(), segment.size());
    }
    head.header.arena_offset = offset;
    std::vector<uint8_t> raw = write_head(head);
    std::copy(raw.begin(), raw.end(), out.begin());
    return raw;
  });
}

}  // namespace pyslash
