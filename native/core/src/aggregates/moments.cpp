// var_pop, var_samp, stddev_pop, stddev_samp, regr_sxx, skewness and kurtosis of float64: from the number of values,
// their mean, and the sums of the second, third and fourth powers of their distances from it.
//
// Reference: Pébay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
// moments" (SAND2008-6212, 2008). Spark keeps the same numbers, and squares means where it merges with a state that has
// seen nothing: where a mean exceeds 1e154, its answer is NaN, and so is this one.
#include <cmath>

#include "states/records.h"
#include "table.h"

namespace pyslash {
namespace {

enum Field : size_t { count, mean, second, third, fourth };

template <size_t order>
struct Powers {
  static constexpr size_t inputs = 1;
  static constexpr size_t fields = order + 1;
  using Record = std::array<double, fields>;

  static void update(Record& to, double value) {
    const double n = to[count] + 1;
    const double delta = value - to[mean];
    const double step = delta / n;
    to[count] = n;
    to[mean] += step;
    to[second] += delta * (delta - step);
    if constexpr (order >= 3) to[third] += delta * (delta * delta - step * step) - 3 * step * to[second];
    if constexpr (order >= 4) {
      to[fourth] +=
          delta * (delta * delta * delta - step * step * step) - 6 * step * step * to[second] - 4 * step * to[third];
    }
  }

  static void merge(Record& to, const Record& from) {
    const double a = to[count], b = from[count];
    const double n = a + b;
    const double delta = from[mean] - to[mean];
    const double step = n == 0 ? 0 : delta / n;
    if constexpr (order >= 4) {
      to[fourth] += from[fourth] + step * step * step * delta * a * b * (a * a - a * b + b * b) +
                    6 * step * step * (a * a * from[second] + b * b * to[second]) +
                    4 * step * (a * from[third] - b * to[third]);
    }
    if constexpr (order >= 3) {
      to[third] += from[third] + step * step * delta * a * b * (a - b) + 3 * step * (a * from[second] - b * to[second]);
    }
    to[second] += from[second] + delta * step * a * b;
    to[mean] = a == 0 ? from[mean] : to[mean] + step * b;  // equal values keep an exact mean, and so no variance
    to[count] = n;
  }
};

template <size_t order>
std::unique_ptr<StateColumn> make_powers(std::span<const Type>) {
  return std::make_unique<Records<Powers<order>>>();
}

constinit const StateKind second_powers{"moments2", make_powers<2>};
constinit const StateKind third_powers{"moments3", make_powers<3>};
constinit const StateKind fourth_powers{"moments4", make_powers<4>};

// `Result` has the highest `order` that it needs, and `of(record)`: a result, or nothing where Spark would divide by
// zero.
template <typename Result>
class Moment final : public Aggregate {
 public:
  Moment(const StateKind& kind, const AggregateCall& call, StateRequests& states)
      : nan_(call.parameter == "nan"), powers_(states.need(kind, call.columns())) {
    expect_doubles(call);
  }

  Type result_type() const override { return {TypeId::float64, 0, 0}; }
  bool result_nullable() const override { return true; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, result_type(), groups.size(), true);
    const auto& powers = static_cast<const Records<Powers<Result::order>>&>(states[powers_]);
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& record = powers[groups[i]];
      store_double(out, i, record[count] == 0 ? std::nullopt : or_nan(Result::of(record), nan_));
    }
  }

 private:
  bool nan_;  // where Spark would divide by zero; else null
  size_t powers_;
};

template <bool sample, bool root>
struct Variance {
  static constexpr size_t order = 2;
  static std::optional<double> of(const std::array<double, 3>& record) {
    const double divisor = record[count] - (sample ? 1 : 0);
    if (divisor == 0) return std::nullopt;
    const double variance = record[second] / divisor;
    return root ? std::sqrt(variance) : variance;
  }
};

struct Squares {
  static constexpr size_t order = 2;
  static std::optional<double> of(const std::array<double, 3>& record) { return record[second]; }
};

struct Skewness {
  static constexpr size_t order = 3;
  static std::optional<double> of(const std::array<double, 4>& record) {
    const double divisor = std::sqrt(record[second] * record[second] * record[second]);
    if (divisor == 0) return std::nullopt;
    return std::sqrt(record[count]) * record[third] / divisor;
  }
};

struct Kurtosis {
  static constexpr size_t order = 4;
  static std::optional<double> of(const std::array<double, 5>& record) {
    const double divisor = record[second] * record[second];
    if (divisor == 0) return std::nullopt;
    return record[count] * record[fourth] / divisor - 3;
  }
};

}  // namespace

std::shared_ptr<const Aggregate> make_variance(const AggregateCall& call, StateRequests& states) {
  if (call.function == "var_pop") return std::make_shared<Moment<Variance<false, false>>>(second_powers, call, states);
  if (call.function == "var_samp") return std::make_shared<Moment<Variance<true, false>>>(second_powers, call, states);
  if (call.function == "stddev_pop")
    return std::make_shared<Moment<Variance<false, true>>>(second_powers, call, states);
  return std::make_shared<Moment<Variance<true, true>>>(second_powers, call, states);
}

std::shared_ptr<const Aggregate> make_squares(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Moment<Squares>>(second_powers, call, states);
}

std::shared_ptr<const Aggregate> make_skewness(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Moment<Skewness>>(third_powers, call, states);
}

std::shared_ptr<const Aggregate> make_kurtosis(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Moment<Kurtosis>>(fourth_powers, call, states);
}

}  // namespace pyslash
