#include "joins/row_log.h"

#include <algorithm>
#include <string>

#include "pyslash/bytes.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"
#include "pyslash/seal.h"

namespace pyslash {

RowLog::RowLog(std::span<const Column> columns) {
  for (const Column& column : columns) columns_.push_back({column.type, {}, {}});
}

void RowLog::append(const Batch& batch, std::span<const uint64_t> hashes, std::span<const uint32_t> rows) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const BatchColumn& from = batch.columns[i];
    Values& to = columns_[i];
    const size_t width = to.type.width();
    for (const uint32_t row : rows) {
      if (from.valid != nullptr && !from.valid[row]) {
        throw Error(Status::invalid_input, "column " + std::to_string(i) + " of a row that is kept is null");
      }
      if (to.type.is_variable()) {
        const auto value = load<BytesRef>(from.values, row);
        to.bytes.insert(to.bytes.end(), value.data, value.data + value.size);
        to.ends.push_back(to.bytes.size());
      } else {
        const uint8_t* value = from.values + row * width;
        to.bytes.insert(to.bytes.end(), value, value + width);
      }
    }
  }
  for (const uint32_t row : rows) hashes_.push_back(hashes[row]);
}

void RowLog::clear() {
  for (Values& column : columns_) {
    column.bytes.clear();
    column.ends.clear();
  }
  hashes_.clear();
}

std::vector<RowSegment> RowLog::cut(int64_t pane, PrefixRange range) const {
  const uint64_t pieces = segments_of(rows(), range.hi - range.lo);
  const uint64_t width = (range.hi - range.lo) / pieces;
  std::vector<RowSegment> segments(pieces);
  for (uint32_t row = 0; row < rows(); ++row) {
    segments[(prefix_of(hashes_[row]) - range.lo) / width].rows.push_back(row);
  }
  for (uint64_t i = 0; i < pieces; ++i) {
    SegmentEntry& entry = segments[i].entry;
    entry.pane = pane;
    entry.prefix_lo = static_cast<uint32_t>(range.lo + i * width);
    entry.prefix_bits = bits_of({0, width});
    entry.rows = static_cast<uint32_t>(segments[i].rows.size());
  }
  std::erase_if(segments, [](const RowSegment& segment) { return segment.rows.empty(); });
  for (RowSegment& segment : segments) measure(segment);
  return segments;
}

// For each column a buffer of null bits, which is empty, one of offsets where it is of variable width, and the values.
void RowLog::measure(RowSegment& segment) const {
  const size_t rows = segment.rows.size();
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Values& column = columns_[i];
    segment.lengths.push_back(0);
    if (!column.type.is_variable()) {
      segment.lengths.push_back(rows * column.type.width());
      continue;
    }
    uint64_t bytes = 0;
    for (const uint32_t row : segment.rows) bytes += column.ends[row] - column.begin_of(row);
    if (bytes > INT32_MAX) {
      throw Error(Status::invalid_input, "rows of nearly equal keys in one pane exceed 2 GiB in column " +
                                             std::to_string(i) + ": more partitions are needed");
    }
    segment.lengths.push_back((rows + 1) * sizeof(int32_t));
    segment.lengths.push_back(bytes);
  }
  segment.entry.length = align_up(segment.lengths.size() * sizeof(uint64_t));
  for (const uint64_t length : segment.lengths) segment.entry.length += align_up(length);
}

void RowLog::write(const RowSegment& segment, std::span<uint8_t> out) const {
  std::fill(out.begin(), out.end(), uint8_t{0});
  for (size_t i = 0; i < segment.lengths.size(); ++i) store(out.data(), i, segment.lengths[i]);
  uint64_t at = align_up(segment.lengths.size() * sizeof(uint64_t));
  size_t buffer = 0;
  const auto next = [&] {
    uint8_t* begin = out.data() + at;
    at += align_up(segment.lengths[buffer++]);
    return begin;
  };
  for (const Values& column : columns_) {
    next();
    if (!column.type.is_variable()) {
      const size_t width = column.type.width();
      uint8_t* values = next();
      for (const uint32_t row : segment.rows) {
        std::memcpy(values, column.bytes.data() + row * width, width);
        values += width;
      }
      continue;
    }
    uint8_t* offsets = next();
    uint8_t* values = next();
    int32_t end = 0;
    for (size_t i = 0; i < segment.rows.size(); ++i) {
      const uint64_t begin = column.begin_of(segment.rows[i]);
      const uint64_t size = column.ends[segment.rows[i]] - begin;
      if (size != 0) std::memcpy(values + end, column.bytes.data() + begin, size);
      end += static_cast<int32_t>(size);
      store(offsets, i + 1, end);
    }
  }
}

}  // namespace pyslash
