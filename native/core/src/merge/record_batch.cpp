#include "pyslash/record_batch.h"

#include <algorithm>
#include <new>

#include "pyslash/aggregate.h"

namespace pyslash {
namespace {

uint8_t* extend_bitmap(Buffer& bitmap, size_t bits) {
  const size_t bytes = (bits + 7) / 8;
  if (bytes > bitmap.size()) {
    const size_t more = bytes - bitmap.size();
    std::memset(bitmap.extend(more), 0, more);
  }
  return bitmap.data();
}

// Sets the bits [begin, begin + count) where `flags` (one byte a bit, 0 or 1) say so. The bitmap is zero there.
void append_bits(Buffer& bitmap, size_t begin, const uint8_t* flags, size_t count) {
  uint8_t* bits = extend_bitmap(bitmap, begin + count);
  for (size_t i = 0; i < count; ++i) {
    bits[(begin + i) / 8] = static_cast<uint8_t>(bits[(begin + i) / 8] | (flags[i] << ((begin + i) % 8)));
  }
}

void append_ones(Buffer& bitmap, size_t begin, size_t count) {
  uint8_t* bits = extend_bitmap(bitmap, begin + count);
  for (size_t i = begin; i < begin + count; ++i) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
}

}  // namespace

void Buffer::reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  const size_t capacity = align_up(bytes);
  std::unique_ptr<uint8_t[], Free> grown(static_cast<uint8_t*>(std::aligned_alloc(block_alignment, capacity)));
  if (grown == nullptr) throw std::bad_alloc();
  if (size_ != 0) std::memcpy(grown.get(), data_.get(), size_);
  data_ = std::move(grown);
  capacity_ = capacity;
}

uint8_t* Buffer::extend(size_t bytes) {
  if (bytes > capacity_ - size_) reserve(std::max(size_ + bytes, 2 * capacity_));
  uint8_t* at = data_.get() + size_;
  size_ += bytes;
  return at;
}

ArrowColumn::ArrowColumn(Type of) : type(of) {
  if (!type.is_variable()) return;
  const int32_t zero = 0;
  offsets.append(&zero, sizeof zero);
}

void ArrowColumn::append(const ResultColumn& piece, size_t rows, size_t piece_rows) {
  const int64_t piece_nulls = piece.valid.empty() ? 0 : std::count(piece.valid.begin(), piece.valid.end(), uint8_t{0});
  if (nulls == 0 && piece_nulls != 0) append_ones(validity, 0, rows);
  if (piece_nulls != 0) {
    append_bits(validity, rows, piece.valid.data(), piece_rows);
  } else if (nulls != 0) {
    append_ones(validity, rows, piece_rows);
  }
  nulls += piece_nulls;

  if (type.is_variable()) {
    const auto shift = static_cast<int32_t>(values.size());
    uint8_t* ends = offsets.extend(piece_rows * sizeof(int32_t));
    for (size_t i = 0; i < piece_rows; ++i) store<int32_t>(ends, i, shift + piece.offsets[i + 1]);
    values.append(piece.values.data(), piece.values.size());
  } else if (type.id == TypeId::boolean) {
    append_bits(values, rows, piece.values.data(), piece_rows);
  } else if (type.is_decimal() && type.width() == 8) {
    uint8_t* wide = values.extend(piece_rows * 16);
    for (size_t i = 0; i < piece_rows; ++i) store<int128_t>(wide, i, load<int64_t>(piece.values.data(), i));
  } else {
    values.append(piece.values.data(), piece_rows * type.width());
  }
}

void ArrowColumn::append(int64_t value, size_t count) {
  uint8_t* at = values.extend(count * sizeof value);
  for (size_t i = 0; i < count; ++i) store(at, i, value);
}

std::vector<ResultField> result_fields(const Plan& plan) {
  const Type time = plan.columns()[0].type;
  std::vector<ResultField> fields{{"window_start", time, false}, {"window_end", time, false}};
  for (size_t i = 0; i < plan.keys().size(); ++i) {
    const Column& column = plan.columns()[static_cast<size_t>(plan.keys()[i])];
    fields.push_back({"key" + std::to_string(i), column.type, column.nullable});
  }
  for (size_t i = 0; i < plan.aggregates().size(); ++i) {
    const Aggregate& aggregate = *plan.aggregates()[i];
    fields.push_back({"agg" + std::to_string(i), aggregate.result_type(), aggregate.result_nullable()});
  }
  return fields;
}

}  // namespace pyslash
