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

// Rows of one size, back to back.
struct EvenRows {
  const uint8_t* first;
  size_t size;
  const uint8_t* operator[](size_t i) const { return first + i * size; }
};

template <typename T, typename Rows>
void gather_values(const Rows& rows, size_t count, size_t field, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) store(out, i, load<T>(rows[i] + field));
}

template <typename Rows>
void gather_fixed(const Rows& rows, size_t count, size_t field, const Type& type, uint8_t* out) {
  switch (type.width()) {
    case 8:
      return gather_values<uint64_t>(rows, count, field, out);
    case 4:
      return gather_values<uint32_t>(rows, count, field, out);
    case 2:
      return gather_values<uint16_t>(rows, count, field, out);
    default:
      gather_values<uint8_t>(rows, count, field, out);
      if (type.id != TypeId::boolean) return;
      for (size_t i = 0; i < count; ++i) out[i] = out[i] != 0 ? 1 : 0;
  }
}

// One byte a row, 1 where the bit is clear.
template <typename Rows>
void gather_valid(const Rows& rows, size_t count, size_t word, size_t bit, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = ~load<uint64_t>(rows[i] + word) >> bit & 1;
}

// The union of the rows' null bits: whether a column has a null at all.
template <typename Rows>
uint64_t any_null(const Rows& rows, size_t count, size_t word) {
  uint64_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= load<uint64_t>(rows[i] + word);
  return bits;
}

}  // namespace

void RowReader::read(const Plan& plan, Bytes page, size_t rows, const BatchConsumer& consume) {
  const size_t columns = plan.columns().size();
  const size_t row_size = plan.fixed_row_bytes();
  const bool is_even = row_size != 0 && page.size() != rows * (row_size + sizeof(int64_t));
  values_.resize(columns);
  valid_.resize(columns);
  batch_.columns.resize(columns);
  size_t at = 0;
  for (size_t done = 0; done < rows; done += batch_.rows) {
    batch_.rows = std::min(batch_rows, rows - done);
    if (is_even) {
      if ((page.size() - at) / row_size < batch_.rows) bad("it ends within a row");
      gather(plan, EvenRows{page.data() + at, row_size});
      at += batch_.rows * row_size;
    } else {
      find_rows(plan, page, at);
      gather(plan, rows_);
    }
    consume(batch_);
  }
  if (at != page.size()) bad(std::to_string(page.size() - at) + " bytes are left after its last row");
}

void RowReader::find_rows(const Plan& plan, Bytes page, size_t& at) {
  const size_t least = null_bytes(plan) + plan.columns().size() * 8;
  rows_.resize(batch_.rows);
  sizes_.resize(batch_.rows);
  for (size_t i = 0; i < batch_.rows; ++i) {
    if (page.size() - at < sizeof(int64_t)) bad("it ends within a row");
    const auto size = load<uint64_t>(page.data() + at);
    at += sizeof(int64_t);
    if (size < least) bad("a row of " + std::to_string(size) + " bytes");
    if (page.size() - at < size) bad("it ends within a row");
    rows_[i] = page.data() + at;
    sizes_[i] = size;
    at += size;
  }
}

template <typename Rows>
void RowReader::gather(const Plan& plan, const Rows& rows) {
  uint64_t nulls = 0;
  for (size_t column = 0; column < plan.columns().size(); ++column) {
    const Column& of = plan.columns()[column];
    const size_t word = column / 64 * 8;
    const size_t bit = column % 64;
    if (bit == 0) nulls = any_null(rows, batch_.rows, word);
    BatchColumn& out = batch_.columns[column];
    out.type = of.type;
    out.valid = nullptr;
    if (nulls >> bit & 1) {
      if (!of.nullable) bad("column " + std::to_string(column) + " holds a null, which the plan rules out");
      valid_[column].resize(batch_.rows);
      gather_valid(rows, batch_.rows, word, bit, valid_[column].data());
      out.valid = valid_[column].data();
    }
    const size_t field = null_bytes(plan) + column * 8;
    std::vector<uint8_t>& values = values_[column];
    const bool in_slot = !of.type.is_variable() && of.type.width() <= 8;
    values.resize(batch_.rows * (of.type.is_variable() ? sizeof(BytesRef) : of.type.width()));
    if (in_slot) {
      gather_fixed(rows, batch_.rows, field, of.type, values.data());
    } else {
      gather_variable(plan, field, out, values);
    }
    out.values = values.data();
  }
}

void RowReader::gather_variable(const Plan& plan, size_t field, const BatchColumn& column,
                                std::vector<uint8_t>& values) {
  const size_t fixed = null_bytes(plan) + plan.columns().size() * 8;
  for (size_t i = 0; i < batch_.rows; ++i) {
    const bool valid = column.valid == nullptr || column.valid[i];
    const BytesRef bytes = valid ? variable(rows_[i], sizes_[i], fixed, field) : BytesRef{};
    if (column.type.is_variable()) {
      store(values.data(), i, bytes);
    } else {
      store(values.data(), i, valid ? big_endian(bytes) : int128_t{0});
    }
  }
}

}  // namespace pyslash
