// What the files of the aggregate functions offer to their table, and what they share.
#pragma once

#include <optional>
#include <string>

#include "pyslash/aggregate.h"

namespace pyslash {

std::shared_ptr<const Aggregate> make_count(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_sum(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_average(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_min(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_max(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_variance(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_squares(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_skewness(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_kurtosis(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_comoment(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_bits(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_chosen(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_approx_count_distinct(const AggregateCall& call, StateRequests& states);
std::shared_ptr<const Aggregate> make_collect(const AggregateCall& call, StateRequests& states);

// A function of one column whose result is the value of a `ValueState`; null where the column was always null.
std::shared_ptr<const Aggregate> make_value(const StateKind& kind, const AggregateCall& call, StateRequests& states);

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

// Status::invalid_plan unless all inputs are float64, to which Spark casts them.
void expect_doubles(const AggregateCall& call);

// Writes row `row` of a float64 result that start() has sized with room for nulls.
inline void store_double(ResultColumn& out, size_t row, std::optional<double> value) {
  out.valid[row] = value ? 1 : 0;
  store(out.values.data(), row, value.value_or(0));
}

[[noreturn]] void overflow(const char* function, const Type& type);
[[noreturn]] void divide_by_zero(const std::string& function);

}  // namespace pyslash
