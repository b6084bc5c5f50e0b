#include "update/row_bucket.h"

#include <algorithm>
#include <string>

#include "pyslash/bytes.h"
#include "pyslash/error.h"

namespace pyslash {
namespace {

bool is_valid(const BatchColumn& column, uint32_t row) { return column.valid == nullptr || column.valid[row]; }

// What is null is zero, so that equal rows give equal bytes.
template <typename T>
void append_values(const BatchColumn& from, std::span<const uint32_t> rows, Chunks& to) {
  uint8_t* out = to.extend(rows.size() * sizeof(T));
  if (from.valid == nullptr) {
    for (size_t i = 0; i < rows.size(); ++i) store(out, i, load<T>(from.values, rows[i]));
  } else {
    for (size_t i = 0; i < rows.size(); ++i) store(out, i, from.valid[rows[i]] ? load<T>(from.values, rows[i]) : T{});
  }
}

void append_fixed(const BatchColumn& from, std::span<const uint32_t> rows, Chunks& to) {
  switch (from.type.width()) {
    case 1:
      return append_values<uint8_t>(from, rows, to);
    case 2:
      return append_values<uint16_t>(from, rows, to);
    case 4:
      return append_values<uint32_t>(from, rows, to);
    case 8:
      return append_values<uint64_t>(from, rows, to);
    default:
      return append_values<int128_t>(from, rows, to);
  }
}

void append_variable(const BatchColumn& from, std::span<const uint32_t> rows, Chunks& bytes, Chunks& sizes) {
  uint8_t* out = sizes.extend(rows.size() * sizeof(uint32_t));
  for (size_t i = 0; i < rows.size(); ++i) {
    const BytesRef value = is_valid(from, rows[i]) ? load<BytesRef>(from.values, rows[i]) : BytesRef{};
    if (value.size > INT32_MAX) throw Error(Status::invalid_input, "a string of more than 2 GiB");
    store(out, i, static_cast<uint32_t>(value.size));
    if (value.size != 0) std::memcpy(bytes.extend(value.size), value.data, value.size);
  }
}

}  // namespace

void RowBucket::append(const Batch& batch, std::span<const uint32_t> rows) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const BatchColumn& from = batch.columns[i];
    ColumnRows& to = columns_[i];
    append_valid(to, from, rows);
    if (from.type.is_variable()) {
      append_variable(from, rows, to.values, to.sizes);
    } else {
      append_fixed(from, rows, to.values);
    }
  }
  rows_ += rows.size();
}

void RowBucket::append_valid(ColumnRows& to, const BatchColumn& from, std::span<const uint32_t> rows) const {
  if (!to.nulls) {
    to.nulls = std::any_of(rows.begin(), rows.end(), [&](uint32_t row) { return !is_valid(from, row); });
    if (!to.nulls) return;
    if (rows_ != 0) std::memset(to.valid.extend(rows_), 1, rows_);
  }
  uint8_t* out = to.valid.extend(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) out[i] = is_valid(from, rows[i]) ? 1 : 0;
}

uint64_t RowBucket::measure(std::span<const Column> columns, std::vector<uint64_t>& lengths) const {
  lengths.clear();
  for (size_t i = 0; i < columns.size(); ++i) {
    lengths.push_back(columns_[i].nulls ? (rows_ + 7) / 8 : 0);
    if (columns[i].type.is_variable()) {
      if (columns_[i].values.size() > INT32_MAX) {
        throw Error(Status::invalid_input, "the strings of column " + std::to_string(i) +
                                               " of one task exceed 2 GiB in one bucket: more partitions are needed");
      }
      lengths.push_back((rows_ + 1) * sizeof(int32_t));
    }
    lengths.push_back(columns_[i].values.size());
  }
  uint64_t total = align_up(lengths.size() * sizeof(uint64_t));
  for (const uint64_t length : lengths) total += align_up(length);
  return total;
}

void RowBucket::write(std::span<const Column> columns, std::span<const uint64_t> lengths,
                      std::span<uint8_t> out) const {
  uint64_t at = align_up(lengths.size() * sizeof(uint64_t));
  std::fill_n(out.begin(), at, uint8_t{0});
  for (size_t i = 0; i < lengths.size(); ++i) store(out.data(), i, lengths[i]);
  size_t buffer = 0;
  const auto next = [&]() {
    const uint64_t length = lengths[buffer++];
    uint8_t* begin = out.data() + at;
    std::fill(begin + length, begin + align_up(length), uint8_t{0});
    at += align_up(length);
    return begin;
  };
  std::vector<uint8_t> valid, sizes;
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnRows& from = columns_[i];
    uint8_t* bits = next();
    if (from.nulls) {
      valid.resize(rows_);
      from.valid.copy_to(valid.data());
      std::fill_n(bits, (rows_ + 7) / 8, uint8_t{0});
      for (size_t row = 0; row < rows_; ++row) bits[row / 8] |= static_cast<uint8_t>(valid[row] << (row % 8));
    }
    if (columns[i].type.is_variable()) {
      sizes.resize(rows_ * sizeof(uint32_t));
      from.sizes.copy_to(sizes.data());
      uint8_t* ends = next();
      int32_t end = 0;
      store(ends, 0, end);
      for (size_t row = 0; row < rows_; ++row) {
        end += static_cast<int32_t>(load<uint32_t>(sizes.data(), row));
        store(ends, row + 1, end);
      }
    }
    from.values.copy_to(next());
  }
}

}  // namespace pyslash
