#include <cstddef>
#include <cstring>

#include "pyslash/block.h"
#include "pyslash/crc32c.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"

namespace pyslash {
namespace {

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(Status::corrupt_block, "the head of a block: " + what);
}

uint32_t crc_of_head(std::vector<uint8_t> head) {
  std::memset(head.data() + offsetof(Header, head_crc), 0, sizeof(uint32_t));
  return crc32c(head.data(), head.size());
}

// Segments lie back to back, from the head's end to the block's: whoever copies them one after the other stays inside.
void check_entries(const Head& head) {
  const Header& header = head.header;
  uint64_t groups = 0;
  uint64_t end = header.head_length;
  for (size_t i = 0; i < head.segments.size(); ++i) {
    const SegmentEntry& entry = head.segments[i];
    if (entry.prefix_bits > 32 || entry.prefix_lo % (uint64_t{1} << (32 - entry.prefix_bits)) != 0) {
      corrupt("an entry with impossible prefixes");
    }
    if (entry.offset != end || entry.length % block_alignment != 0 || end > header.length ||
        entry.length > header.length - end) {
      corrupt("an entry points outside the block");
    }
    end += entry.length;
    // Every group takes a byte at least; where there are no keys, there is one group.
    if (entry.rows > entry.length) corrupt("an entry has more groups than bytes");
    if (i > 0) {
      const SegmentEntry& before = head.segments[i - 1];
      const bool ordered =
          before.pane < entry.pane || (before.pane == entry.pane && before.prefix_hi() <= entry.prefix_lo);
      if (!ordered) corrupt("its entries are not in order");
    }
    groups += entry.rows;
  }
  if (groups != header.groups) corrupt("its entries do not add up to its groups");
  if (header.length != (head.segments.empty() ? 0 : end)) corrupt("its entries do not add up to its length");
}

}  // namespace

size_t head_length(size_t segments, size_t plan_length) {
  return align_up(sizeof(Header) + segments * sizeof(SegmentEntry) + plan_length);
}

Head read_head(Bytes bytes) {
  Head head;
  Header& header = head.header;
  if (bytes.size() < sizeof(Header)) corrupt(std::to_string(bytes.size()) + " bytes are too few");
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != block_magic) corrupt("it does not begin with the magic number");
  if (header.version != block_version) {
    corrupt("it is of format " + std::to_string(header.version) + ", this version reads " +
            std::to_string(block_version));
  }
  if (header.head_length > bytes.size() ||
      header.head_length != head_length(header.segment_count, header.plan_length)) {
    corrupt("its lengths contradict each other");
  }
  // From here on only this copy is looked at: in shared memory the bytes may change between two reads.
  const std::vector<uint8_t> whole(bytes.begin(), bytes.begin() + header.head_length);
  if (std::memcmp(whole.data(), &header, sizeof(Header)) != 0) corrupt("it changes while it is read");
  if (crc_of_head(whole) != header.head_crc) corrupt("its CRC32C does not match");
  head.segments.resize(header.segment_count);
  if (header.segment_count != 0) {
    std::memcpy(head.segments.data(), whole.data() + sizeof(Header), header.segment_count * sizeof(SegmentEntry));
  }
  const uint8_t* text = whole.data() + sizeof(Header) + header.segment_count * sizeof(SegmentEntry);
  head.plan_text.assign(text, text + header.plan_length);
  if (hash_bytes(text, header.plan_length) != header.plan_fingerprint) corrupt("its plan and fingerprint differ");
  check_entries(head);
  return head;
}

std::vector<uint8_t> write_head(const Head& head) {
  std::vector<uint8_t> bytes(head_length(head.segments.size(), head.plan_text.size()), 0);
  Header header = head.header;
  header.magic = block_magic;
  header.version = block_version;
  header.head_length = static_cast<uint32_t>(bytes.size());
  header.segment_count = static_cast<uint32_t>(head.segments.size());
  header.plan_length = static_cast<uint32_t>(head.plan_text.size());
  header.plan_fingerprint = hash_bytes(reinterpret_cast<const uint8_t*>(head.plan_text.data()), head.plan_text.size());
  header.head_crc = 0;
  header.reserved.fill(0);
  std::memcpy(bytes.data(), &header, sizeof(Header));
  const size_t entries = head.segments.size() * sizeof(SegmentEntry);
  if (entries != 0) std::memcpy(bytes.data() + sizeof(Header), head.segments.data(), entries);
  std::memcpy(bytes.data() + sizeof(Header) + entries, head.plan_text.data(), head.plan_text.size());
  store(bytes.data() + offsetof(Header, head_crc), 0, crc_of_head(bytes));
  return bytes;
}

std::optional<Bytes> segment_in(const SegmentEntry& entry, uint64_t offset, Bytes bytes) {
  if (entry.offset < offset || entry.offset - offset > bytes.size() ||
      entry.length > bytes.size() - (entry.offset - offset)) {
    return std::nullopt;
  }
  return bytes.subspan(entry.offset - offset, entry.length);
}

std::vector<ByteRange> ranges(const Head& head, int64_t pane_lo, int64_t pane_hi, uint64_t prefix_lo,
                              uint64_t prefix_hi) {
  std::vector<ByteRange> found;
  for (const SegmentEntry& entry : head.segments) {
    if (entry.pane < pane_lo || entry.pane >= pane_hi || entry.prefix_lo >= prefix_hi ||
        entry.prefix_hi() <= prefix_lo) {
      continue;
    }
    if (!found.empty() && found.back().offset + found.back().length == entry.offset) {
      found.back().length += entry.length;
    } else {
      found.push_back({entry.offset, entry.length});
    }
  }
  return found;
}

}  // namespace pyslash
