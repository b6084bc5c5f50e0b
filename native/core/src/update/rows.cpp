#include "update/rows.h"

#include <algorithm>
#include <string>

#include "pyslash/error.h"

namespace pyslash {
namespace {

[[noreturn]] void bad(const std::string& what) { throw Error(Status::invalid_input, "a page of rows: " + what); }

size_t null_bytes(const Plan& plan) { return (plan.columns().size() + 63) / 64 * 8; }

// Bytes of a variable field, checked against its row.
BytesRef variable(const uint8_t* row, size_t row_size, size_t fixed, size_t field) {
  const auto word = load<uint64_t>(row + field);
  const size_t offset = word >> 32;
  const size_t size = word & 0xffffffffU;
  if (offset < fixed || offset > row_size || size > row_size - offset) bad("a field lies outside its row");
  return {row + offset, size};
}

int128_t big_endian(BytesRef bytes) {
  if (bytes.size == 0 || bytes.size > sizeof(int128_t)) bad("a decimal of " + std::to_string(bytes.size) + " bytes");
  uint128_t value = bytes.data[0] & 0x80 ? ~uint128_t{0} : 0;
  for (size_t i = 0; i < bytes.size; ++i) value = value << 8 | bytes.data[i];
  return static_cast<int128_t>(value);
}

template <typename T>
void gather_values(const std::vector<const uint8_t*>& rows, size_t field, uint8_t* out) {
  for (size_t i = 0; i < rows.size(); ++i) store(out, i, load<T>(rows[i] + field));
}

}  // namespace

void RowReader::read(const Plan& plan, Bytes page, size_t rows, const BatchConsumer& consume) {
  const size_t columns = plan.columns().size();
  values_.resize(columns);
  valid_.resize(columns);
  batch_.columns.resize(columns);
  size_t at = 0;
  for (size_t done = 0; done < rows; done += batch_.rows) {
    batch_.rows = std::min(batch_rows, rows - done);
    find_rows(plan, page, at, batch_.rows);
    for (size_t column = 0; column < columns; ++column) gather(plan, column, batch_.columns[column]);
    consume(batch_);
  }
  if (at != page.size()) bad(std::to_string(page.size() - at) + " bytes are left after its last row");
}

void RowReader::find_rows(const Plan& plan, Bytes page, size_t& at, size_t rows) {
  const size_t fixed = plan.fixed_row_bytes();
  const size_t least = null_bytes(plan) + plan.columns().size() * 8;
  rows_.resize(rows);
  sizes_.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    size_t size = fixed;
    if (fixed == 0) {
      if (page.size() - at < sizeof(int64_t)) bad("it ends within a row");
      const auto given = load<int64_t>(page.data() + at);
      at += sizeof(int64_t);
      if (given < static_cast<int64_t>(least)) bad("a row of " + std::to_string(given) + " bytes");
      size = static_cast<size_t>(given);
    }
    if (page.size() - at < size) bad("it ends within a row");
    rows_[i] = page.data() + at;
    sizes_[i] = size;
    at += size;
  }
}

void RowReader::gather(const Plan& plan, size_t column, BatchColumn& out) {
  const Column& of = plan.columns()[column];
  const size_t rows = rows_.size();
  const size_t word = column / 64 * 8;
  const size_t field = null_bytes(plan) + column * 8;
  std::vector<uint8_t>& valid = valid_[column];
  std::vector<uint8_t>& values = values_[column];
  valid.resize(rows);
  uint8_t all = 1;
  for (size_t i = 0; i < rows; ++i) {
    valid[i] = ~load<uint64_t>(rows_[i] + word) >> (column % 64) & 1;
    all &= valid[i];
  }
  if (!all && !of.nullable) bad("column " + std::to_string(column) + " holds a null, which the plan rules out");
  out.type = of.type;
  out.valid = all ? nullptr : valid.data();
  const size_t width = of.type.is_variable() ? sizeof(BytesRef) : of.type.width();
  values.resize(rows * width);
  if (of.type.is_variable() || width == 16) {
    const size_t fixed = null_bytes(plan) + plan.columns().size() * 8;
    for (size_t i = 0; i < rows; ++i) {
      const BytesRef bytes = valid[i] ? variable(rows_[i], sizes_[i], fixed, field) : BytesRef{};
      if (of.type.is_variable()) {
        store(values.data(), i, bytes);
      } else {
        store(values.data(), i, valid[i] ? big_endian(bytes) : int128_t{0});
      }
    }
  } else if (of.type.id == TypeId::boolean) {
    for (size_t i = 0; i < rows; ++i) values[i] = rows_[i][field] != 0 ? 1 : 0;
  } else if (width == 8) {
    gather_values<uint64_t>(rows_, field, values.data());
  } else if (width == 4) {
    gather_values<uint32_t>(rows_, field, values.data());
  } else if (width == 2) {
    gather_values<uint16_t>(rows_, field, values.data());
  } else {
    gather_values<uint8_t>(rows_, field, values.data());
  }
  out.values = values.data();
}

}  // namespace pyslash
