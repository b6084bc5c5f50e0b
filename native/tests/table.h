// Rows of any types for tests, as a page of UnsafeRows and as Arrow arrays, with garbage wherever a reader must not
// look.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash {

struct Cell {
  bool null = false;
  int128_t integer = 0;  // booleans, integers, times, unscaled decimals
  double floating = 0;
  std::string bytes;
};

// Row by row; a row's first cell is the event time.
using Table = std::vector<std::vector<Cell>>;

inline Cell null_cell() { return {true, 0, 0, {}}; }
inline Cell integer_cell(int128_t value) { return {false, value, 0, {}}; }
inline Cell floating_cell(double value) { return {false, 0, value, {}}; }
inline Cell bytes_cell(std::string value) { return {false, 0, 0, std::move(value)}; }

inline std::string decimal_text(int128_t value) {
  std::string digits;
  const bool negative = value < 0;
  auto rest = negative ? -static_cast<uint128_t>(value) : static_cast<uint128_t>(value);
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  return negative ? "-" + digits : digits;
}

inline std::string floating_text(double value) {
  if (std::isnan(value)) return "nan";
  char text[40];
  std::snprintf(text, sizeof text, "%a", value == 0 ? 0.0 : value);
  return text;
}

// Equal texts for values that group and compare as equal.
inline std::string text_of(const Type& type, const Cell& cell) {
  if (cell.null) return "null";
  if (type.is_variable()) return "'" + cell.bytes + "'";
  return type.is_floating() ? floating_text(cell.floating) : decimal_text(cell.integer);
}

template <typename T>
T load_as(const uint8_t* values, size_t row, size_t width) {
  T value{};
  std::memcpy(&value, values + row * width, width);
  return value;
}

inline int128_t load_integer(const uint8_t* values, size_t row, size_t width) {
  auto bits = load_as<uint128_t>(values, row, width);
  const size_t unused = 128 - 8 * width;
  return static_cast<int128_t>(bits << unused) >> unused;
}

inline std::string text_of(const ResultColumn& column, size_t row) {
  if (!column.valid.empty() && !column.valid[row]) return "null";
  if (column.type.is_variable()) {
    const auto* begin = reinterpret_cast<const char*>(column.values.data());
    return "'" + std::string(begin + column.offsets[row], begin + column.offsets[row + 1]) + "'";
  }
  if (column.type.id == TypeId::float32) return floating_text(load<float>(column.values.data(), row));
  if (column.type.id == TypeId::float64) return floating_text(load<double>(column.values.data(), row));
  return decimal_text(load_integer(column.values.data(), row, column.type.width()));
}

class RandomCells {
 public:
  explicit RandomCells(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }

  // Few different values, among them the extreme ones of the type.
  Cell cell(const Column& column) {
    if (column.nullable && one_in(5)) return null_cell();
    const Type& type = column.type;
    if (type.is_variable()) return bytes_cell(bytes());
    if (type.is_floating()) return floating_cell(floating(type));
    return integer_cell(integer(type));
  }

 private:
  std::string bytes() {
    std::string text(std::vector<size_t>{0, 1, 7, 8, 9, 40}[below(6)], '\0');
    for (char& byte : text) byte = static_cast<char>(std::vector<int>{0, 'a', 'b', 0xff}[below(4)]);
    return text;
  }
  double floating(const Type& type) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double other_nan = -std::nan("7");
    const double greatest = type.id == TypeId::float32 ? 3.4028234663852886e38 : 1e300;
    const std::vector<double> values{0.0,      -0.0,      1.5,          -1.5,      1e10,
                                     infinity, -infinity, std::nan(""), other_nan, greatest};
    return one_in(2) ? static_cast<double>(below(8)) / 4 - 1 : values[below(values.size())];
  }
  int128_t integer(const Type& type) {
    if (type.id == TypeId::boolean) return below(2);
    int128_t greatest = 0;
    if (type.is_decimal()) {
      greatest = power_of_ten(type.precision) - 1;
    } else {
      greatest = (int128_t{1} << (8 * type.width() - 1)) - 1;
    }
    const int128_t least = type.is_decimal() ? -greatest : -greatest - 1;
    const std::vector<int128_t> values{0, 1, -1, 2, 9, greatest, least};
    return values[below(values.size())] % (greatest == 0 ? 1 : greatest + (one_in(2) ? 1 : 0));
  }

  std::mt19937_64 random_;
};

inline Table random_table(RandomCells& random, const Plan& plan, size_t rows, int64_t first_time, uint64_t time_span) {
  Table table(rows);
  for (auto& row : table) {
    row.push_back(random.one_in(20) ? null_cell()
                                    : integer_cell(first_time + static_cast<int64_t>(random.below(time_span))));
    for (size_t column = 1; column < plan.columns().size(); ++column)
      row.push_back(random.cell(plan.columns()[column]));
  }
  return table;
}

// A value's bytes as they lie in a field or an Arrow buffer, `width` bytes little endian.
inline void put(std::vector<uint8_t>& out, size_t at, const Type& type, const Cell& cell, size_t width) {
  if (type.id == TypeId::float32) {
    store(out.data() + at, 0, static_cast<float>(cell.floating));
  } else if (type.id == TypeId::float64) {
    store(out.data() + at, 0, cell.floating);
  } else {
    std::memcpy(out.data() + at, &cell.integer, width);
  }
}

// The fewest bytes of the big-endian two's complement, as Java's BigInteger.toByteArray has it.
inline std::string big_integer(int128_t value) {
  std::string bytes;
  do {
    bytes.insert(bytes.begin(), static_cast<char>(value & 0xff));
    value >>= 8;
  } while (!((value == 0 && !(bytes[0] & 0x80)) || (value == -1 && (bytes[0] & 0x80))));
  return bytes;
}

inline std::vector<uint8_t> to_page(const Plan& plan, const Table& table) {
  std::vector<uint8_t> page;
  const size_t fields = plan.columns().size();
  const size_t nulls = (fields + 63) / 64 * 8;
  for (const auto& cells : table) {
    std::vector<uint8_t> row(nulls + fields * 8, 0);
    for (size_t i = 0; i < fields; ++i) {
      const Type& type = plan.columns()[i].type;
      const size_t field = nulls + i * 8;
      if (cells[i].null) {
        row[i / 8] |= static_cast<uint8_t>(1U << (i % 8));
        std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(field), 8, uint8_t{0xee});
      } else if (type.is_variable() || type.width() == 16) {
        const std::string bytes = type.is_variable() ? cells[i].bytes : big_integer(cells[i].integer);
        store(row.data() + field, 0, static_cast<uint64_t>(row.size()) << 32 | bytes.size());
        row.insert(row.end(), bytes.begin(), bytes.end());
        row.resize(align_up(row.size(), 8), 0xdd);
      } else {
        put(row, field, type, cells[i], type.width());
      }
    }
    if (plan.fixed_row_bytes() == 0) {
      const uint64_t size = row.size();
      page.resize(page.size() + 8);
      std::memcpy(page.data() + page.size() - 8, &size, 8);
    }
    page.insert(page.end(), row.begin(), row.end());
  }
  return page;
}

// A table's columns as the core's own loops read them.
class ValueTable {
 public:
  ValueTable(const Plan& plan, const Table& table) : buffers_(plan.columns().size()) {
    for (size_t i = 0; i < plan.columns().size(); ++i) add(plan.columns()[i].type, table, i);
  }
  const std::vector<BatchColumn>& columns() const { return columns_; }

 private:
  struct Buffers {
    std::vector<uint8_t> valid, values;
  };

  void add(const Type& type, const Table& table, size_t column) {
    Buffers& to = buffers_[column];
    const size_t width = type.is_variable() ? sizeof(BytesRef) : type.width();
    to.values.assign(table.size() * width, 0);
    for (size_t row = 0; row < table.size(); ++row) {
      const Cell& cell = table[row][column];
      to.valid.push_back(cell.null ? 0 : 1);
      if (type.is_variable()) {
        store(to.values.data(), row,
              BytesRef{reinterpret_cast<const uint8_t*>(cell.bytes.data()), cell.null ? 0 : cell.bytes.size()});
      } else if (!cell.null) {
        put(to.values, row * width, type, cell, width);
      }
    }
    columns_.push_back({type, to.valid.data(), to.values.data()});
  }

  std::vector<Buffers> buffers_;
  std::vector<BatchColumn> columns_;
};

// Arrow arrays of a table, each of which begins `offset` elements into its buffers.
class ArrowTable {
 public:
  ArrowTable(const Plan& plan, const Table& table, int64_t offset = 0, bool large = false)
      : buffers_(plan.columns().size()) {
    for (size_t i = 0; i < plan.columns().size(); ++i)
      add(plan.columns()[i].type, i, table, static_cast<size_t>(offset), large);
  }
  const std::vector<ColumnView>& columns() const { return columns_; }

 private:
  struct Buffers {
    std::vector<uint8_t> validity, values, offsets;
  };

  void add(const Type& type, size_t column, const Table& table, size_t offset, bool large) {
    Buffers& to = buffers_[column];
    const size_t elements = table.size() + offset;
    const size_t width = type.is_decimal() ? 16 : type.width();
    to.validity.assign((elements + 7) / 8, 0x55);
    to.values.assign(type.is_variable() ? 3 : type.id == TypeId::boolean ? (elements + 7) / 8 : elements * width, 0x77);
    const auto add_offset = [&] {
      const uint64_t end = to.values.size();
      to.offsets.insert(to.offsets.end(), reinterpret_cast<const uint8_t*>(&end),
                        reinterpret_cast<const uint8_t*>(&end) + (large ? 8 : 4));
    };
    for (size_t i = 0; i <= offset; ++i) add_offset();
    bool nulls = false;
    const auto set_bit = [](std::vector<uint8_t>& bits, size_t at, bool value) {
      bits[at / 8] = static_cast<uint8_t>((bits[at / 8] & ~(1U << (at % 8))) | (value ? 1U << (at % 8) : 0U));
    };
    for (size_t row = 0; row < table.size(); ++row) {
      const Cell& cell = table[row][column];
      nulls = nulls || cell.null;
      set_bit(to.validity, offset + row, !cell.null);
      if (type.is_variable()) {
        const std::string bytes = cell.null ? "unseen" : cell.bytes;
        to.values.insert(to.values.end(), bytes.begin(), bytes.end());
        add_offset();
      } else if (type.id == TypeId::boolean) {
        set_bit(to.values, offset + row, cell.integer != 0);
      } else if (!cell.null) {
        put(to.values, (offset + row) * width, type, cell, width);
      }
    }
    columns_.push_back({type, nulls ? to.validity.data() : nullptr, to.values.data(),
                        type.is_variable() ? to.offsets.data() : nullptr, large, static_cast<int64_t>(offset)});
  }

  std::vector<Buffers> buffers_;
  std::vector<ColumnView> columns_;
};

}  // namespace pyslash
