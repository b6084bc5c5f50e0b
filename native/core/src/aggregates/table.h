// What the files of the aggregate functions offer to their table, and what they share.
#pragma once

#include "pyslash/aggregate.h"

namespace pyslash {

std::shared_ptr<const Aggregate> make_count(const AggregateInput& input, StateRequests& states);
std::shared_ptr<const Aggregate> make_sum(const AggregateInput& input, StateRequests& states);
std::shared_ptr<const Aggregate> make_average(const AggregateInput& input, StateRequests& states);
std::shared_ptr<const Aggregate> make_min(const AggregateInput& input, StateRequests& states);
std::shared_ptr<const Aggregate> make_max(const AggregateInput& input, StateRequests& states);

// Spark's DecimalType.bounded.
inline Type bounded_decimal(int precision, int scale) {
  return {TypeId::decimal, static_cast<uint8_t>(precision < max_decimal_digits ? precision : max_decimal_digits),
          static_cast<uint8_t>(scale < max_decimal_digits ? scale : max_decimal_digits)};
}

// Writes row `row` of a decimal result, 8 or 16 bytes wide.
inline void store_decimal(ResultColumn& out, size_t row, int128_t value) {
  if (out.type.width() == 8) {
    store(out.values.data(), row, static_cast<int64_t>(value));
  } else {
    store(out.values.data(), row, value);
  }
}

// Sizes a fixed-width result with room for nulls.
inline void start(ResultColumn& out, const Type& type, size_t rows, bool nullable) {
  out.type = type;
  out.valid.assign(nullable ? rows : 0, 1);
  out.values.assign(rows * type.width(), 0);
  out.offsets.clear();
}

[[noreturn]] void overflow(const char* function, const Type& type);

}  // namespace pyslash
