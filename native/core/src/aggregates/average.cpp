// avg(x): float64 of integers and floats, decimal(p + 4, s + 4) of decimals, rounded half up as Spark's division does.
#include "pyslash/error.h"
#include "table.h"

namespace pyslash {
namespace {

class Average final : public Aggregate {
 public:
  Average(const AggregateCall& call, StateRequests& states)
      : input_(call.input().of.type),
        type_(result_of(call.input().of.type)),
        nullable_(call.input().of.nullable),
        ansi_(call.ansi),
        values_(call.input(), states),
        sum_(states.need(add_state, {call.input().column})) {}

  Type result_type() const override { return type_; }
  bool result_nullable() const override { return nullable_ || (type_.is_decimal() && !ansi_); }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, type_, groups.size(), result_nullable());
    const ValueCount::Counts counts = values_.of(states);
    for (size_t i = 0; i < groups.size(); ++i) {
      const int64_t count = counts[groups[i]];
      if (count == 0) {
        out.valid[i] = 0;
      } else if (type_.is_decimal()) {
        finish_decimal(static_cast<const ExactSumState&>(states[sum_]).sum(groups[i]), count, i, out);
      } else {
        store(out.values.data(), i, total(states, groups[i]) / static_cast<double>(count));
      }
    }
  }

 private:
  static Type result_of(const Type& type) {
    if (type.is_decimal()) return bounded_decimal(type.precision + 4, type.scale + 4);
    if (type.is_floating() || type.is_integer()) return {TypeId::float64, 0, 0};
    throw Error(Status::invalid_plan, "there is no avg over " + type.name());
  }

  double total(const StateSet& states, uint32_t group) const {
    if (input_.is_floating()) return static_cast<const FloatSumState&>(states[sum_]).sums()[group];
    // Integers of 64 bits leave 128 only after 2^64 rows.
    return static_cast<double>(static_cast<const ExactSumState&>(states[sum_]).sum(group).low);
  }

  void finish_decimal(const ExactSum& sum, int64_t count, size_t row, ResultColumn& out) const {
    // Spark sums in decimal(p + 10, s): a sum beyond that has overflowed, whatever the quotient would be.
    const int128_t sum_bound = power_of_ten(bounded_decimal(input_.precision + 10, input_.scale).precision);
    const int128_t bound = power_of_ten(type_.precision);
    const int128_t scale = power_of_ten(type_.scale - input_.scale);
    bool fits = sum.high == 0 && sum.low < sum_bound && sum.low > -sum_bound;
    int128_t result = 0;
    if (fits) {
      const bool negative = sum.low < 0;
      const int128_t magnitude = negative ? -sum.low : sum.low;
      // (whole + rest / count) * scale; the rest is below 2^63, so nothing but whole * scale can overflow.
      const int128_t rest = magnitude % count * scale;
      fits = !__builtin_mul_overflow(magnitude / count, scale, &result);
      if (fits) {
        result += rest / count;
        result += (rest % count) * 2 >= count ? 1 : 0;
        fits = result < bound;
        result = negative ? -result : result;
      }
    }
    if (fits) {
      store_decimal(out, row, result);
    } else if (ansi_) {
      overflow("avg", type_);
    } else {
      out.valid[row] = 0;
    }
  }

  Type input_;
  Type type_;
  bool nullable_;
  bool ansi_;
  ValueCount values_;
  size_t sum_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_average(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Average>(call, states);
}

}  // namespace pyslash
