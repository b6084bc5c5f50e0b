#include "update/columns.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "pyslash/bytes.h"
#include "pyslash/error.h"

namespace pyslash {
namespace {

bool bit(const uint8_t* bitmap, size_t index) { return bitmap[index / 8] >> (index % 8) & 1; }

size_t offset_of(const ColumnView& column, size_t index) {
  const int64_t offset =
      column.large_offsets ? load<int64_t>(column.offsets, index) : load<int32_t>(column.offsets, index);
  if (offset < 0) throw Error(Status::invalid_input, "an Arrow array with a negative offset");
  return static_cast<size_t>(offset);
}

bool is_time(const Type& type) { return type.id == TypeId::timestamp || type.id == TypeId::timestamp_ntz; }

}  // namespace

template <typename Columns, typename Slice>
void ColumnReader::read_slices(const Plan& plan, const Columns& columns, size_t rows, const BatchConsumer& consume,
                               Slice&& slice) {
  const std::vector<Column>& wanted = plan.columns();
  if (columns.size() != wanted.size()) {
    throw Error(Status::invalid_input, std::to_string(columns.size()) + " columns where the plan has " +
                                           std::to_string(wanted.size()) + " (the event time among them)");
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool same = i == 0 ? is_time(columns[i].type) : columns[i].type == wanted[i].type;
    if (!same) {
      throw Error(Status::invalid_input, "column " + std::to_string(i) + " is " + columns[i].type.name() +
                                             " where the plan has " + wanted[i].type.name());
    }
  }
  batch_.columns.resize(columns.size());
  for (size_t begin = 0; begin < rows; begin += batch_.rows) {
    batch_.rows = std::min(batch_rows, rows - begin);
    for (size_t i = 0; i < columns.size(); ++i) {
      slice(i, begin);
      if (batch_.columns[i].valid != nullptr && !wanted[i].nullable) {
        throw Error(Status::invalid_input, "column " + std::to_string(i) + " holds a null, which the plan rules out");
      }
    }
    consume(batch_);
  }
}

void ColumnReader::read(const Plan& plan, std::span<const ColumnView> columns, size_t rows,
                        const BatchConsumer& consume) {
  values_.resize(columns.size());
  valid_.resize(columns.size());
  read_slices(plan, columns, rows, consume,
              [&](size_t i, size_t begin) { slice(columns[i], begin, batch_.rows, i, batch_.columns[i]); });
}

void ColumnReader::read(const Plan& plan, std::span<const BatchColumn> columns, size_t rows,
                        const BatchConsumer& consume) {
  read_slices(plan, columns, rows, consume, [&](size_t i, size_t begin) {
    const BatchColumn& from = columns[i];
    const size_t width = from.type.is_variable() ? sizeof(BytesRef) : from.type.width();
    const uint8_t* valid = from.valid == nullptr ? nullptr : from.valid + begin;
    const bool has_null = valid != nullptr && std::memchr(valid, 0, batch_.rows) != nullptr;
    batch_.columns[i] = {from.type, has_null ? valid : nullptr, from.values + begin * width};
  });
}

void ColumnReader::slice(const ColumnView& from, size_t begin, size_t rows, size_t column, BatchColumn& out) {
  const size_t first = static_cast<size_t>(from.offset) + begin;
  std::vector<uint8_t>& valid = valid_[column];
  std::vector<uint8_t>& values = values_[column];
  out.type = from.type;
  out.valid = nullptr;
  if (from.validity != nullptr) {
    valid.resize(rows);
    uint8_t all = 1;
    for (size_t i = 0; i < rows; ++i) all &= valid[i] = bit(from.validity, first + i);
    if (!all) out.valid = valid.data();
  }
  if (from.type.is_variable()) {
    values.resize(rows * sizeof(BytesRef));
    for (size_t i = 0; i < rows; ++i) {
      const size_t start = offset_of(from, first + i);
      const size_t end = offset_of(from, first + i + 1);
      if (end < start) throw Error(Status::invalid_input, "an Arrow array whose offsets go back");
      store(values.data(), i, BytesRef{from.values + start, end - start});
    }
  } else if (from.type.id == TypeId::boolean) {
    values.resize(rows);
    for (size_t i = 0; i < rows; ++i) values[i] = bit(from.values, first + i);
  } else if (from.type.is_decimal() && from.type.width() == 8) {
    values.resize(rows * sizeof(int64_t));
    // The low half of a decimal that has at most 18 digits is all of it.
    for (size_t i = 0; i < rows; ++i) store(values.data(), i, load<int64_t>(from.values, 2 * (first + i)));
  } else {
    out.values = from.values + first * from.type.width();
    return;
  }
  out.values = values.data();
}

}  // namespace pyslash
