// sum(x) and try_sum(x): int64 of integers, float64 of floats, decimal(p + 10, s) of decimals. Overflow is judged on
// the true sum.
#include <string>

#include "pyslash/error.h"
#include "table.h"

namespace pyslash {

void overflow(const char* function, const Type& type) {
  throw Error(Status::arithmetic_overflow,
              "[ARITHMETIC_OVERFLOW] " + std::string(function) + " does not fit " + type.name() + ". Use try_" +
                  function + ", a wider type, or set spark.sql.ansi.enabled to false. SQLSTATE: 22003");
}

namespace {

class Sum final : public Aggregate {
 public:
  Sum(const AggregateCall& call, StateRequests& states)
      : type_(result_of(call.input().of.type)),
        nullable_(call.input().of.nullable),
        ansi_(call.ansi),
        try_(call.parameter == "try"),
        values_(call.input(), states),
        sum_(states.need(add_state, {call.input().column})) {}

  Type result_type() const override { return type_; }
  bool result_nullable() const override { return nullable_ || try_ || (type_.is_decimal() && !ansi_); }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, type_, groups.size(), result_nullable());
    const ValueCount::Counts counts = values_.of(states);
    if (nullable_) {
      for (size_t i = 0; i < groups.size(); ++i) out.valid[i] = counts[groups[i]] != 0;
    }
    // The sum of no values is zero, which is what a null row's value is to be.
    if (type_.is_floating()) {
      const std::vector<double>& sums = static_cast<const FloatSumState&>(states[sum_]).sums();
      for (size_t i = 0; i < groups.size(); ++i) store(out.values.data(), i, sums[groups[i]]);
      return;
    }
    const auto& sums = static_cast<const ExactSumState&>(states[sum_]);
    if (const int64_t* longs = sums.longs(); longs != nullptr && type_.is_integer()) {
      for (size_t i = 0; i < groups.size(); ++i) store(out.values.data(), i, longs[groups[i]]);
      return;
    }
    for (size_t i = 0; i < groups.size(); ++i) finish_exact(sums.sum(groups[i]), i, out);
  }

 private:
  static Type result_of(const Type& type) {
    if (type.is_decimal()) return bounded_decimal(type.precision + 10, type.scale);
    if (type.is_floating()) return {TypeId::float64, 0, 0};
    if (type.is_integer()) return {TypeId::int64, 0, 0};
    throw Error(Status::invalid_plan, "there is no sum over " + type.name());
  }

  void finish_exact(const ExactSum& sum, size_t row, ResultColumn& out) const {
    if (type_.is_decimal()) {
      const int128_t bound = power_of_ten(type_.precision);
      if (sum.high == 0 && sum.low < bound && sum.low > -bound) {
        store_decimal(out, row, sum.low);
      } else if (ansi_) {
        overflow("sum", type_);
      } else {
        out.valid[row] = 0;
      }
    } else {
      const bool fits = sum.high == 0 && sum.low == static_cast<int64_t>(sum.low);
      if (ansi_ && !fits) overflow("sum", type_);
      if (try_ && !fits) {
        out.valid[row] = 0;
      } else {
        store(out.values.data(), row, static_cast<int64_t>(sum.low));
      }
    }
  }

  Type type_;
  bool nullable_;
  bool ansi_;
  bool try_;  // an overflow is null, of integers too
  ValueCount values_;
  size_t sum_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_sum(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Sum>(call, states);
}

}  // namespace pyslash
