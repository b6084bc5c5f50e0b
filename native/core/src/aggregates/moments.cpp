// var_pop, var_samp, stddev_pop, stddev_samp, regr_sxx, skewness and kurtosis of float64: from the number of values,
// their mean, and the sums of the second, third and fourth powers of their distances from it.
//
// Reference: Pébay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
// moments" (SAND2008-6212, 2008).
#include <cmath>

#include "states/records.h"
#include "statistics.h"

namespace pyslash {
namespace {

enum Field : size_t { count, mean, second, third, fourth };

template <size_t order, bool guarded>
struct Powers : Merging<Powers<order, guarded>, guarded> {
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
    if constexpr (order >= 3) {
      const double square = delta * delta, step_square = step * step;
      to[third] = to[third] - 3 * step * to[second] + delta * (square - step_square);
      if constexpr (order >= 4) {
        to[fourth] = to[fourth] - 4 * step * to[third] - 6 * step_square * to[second] +
                     delta * (delta * square - step * step_square);
      }
    }
  }

  static void add(Record& to, const Record& from) {
    const double a = to[count], b = from[count];
    const double n = a + b;
    const double delta = distance<guarded>(a, to[mean], b, from[mean]);
    const double step = n == 0 ? 0 : delta / n;
    if constexpr (order >= 4) {
      to[fourth] = to[fourth] + from[fourth] + step * step * step * delta * a * b * (a * a - a * b + b * b) +
                   6 * step * step * (a * a * from[second] + b * b * to[second]) +
                   4 * step * (a * from[third] - b * to[third]);
    }
    if constexpr (order >= 3) {
      to[third] = to[third] + from[third] + step * step * delta * a * b * (a - b) +
                  3 * step * (a * from[second] - b * to[second]);
    }
    to[second] = to[second] + from[second] + delta * step * a * b;
    to[mean] = merged_mean<guarded>(a, to[mean], b, from[mean], step);
    to[count] = n;
  }
};

template <size_t order, bool guarded>
std::unique_ptr<StateColumn> make_powers(std::span<const Type>) {
  return std::make_unique<Records<Powers<order, guarded>>>();
}

constexpr std::array<std::string_view, 5> names{"", "", "moments2", "moments3", "moments4"};

// The same records, whichever release of Spark merges them.
template <size_t order, bool guarded>
constinit const StateKind powers{names[order], make_powers<order, guarded>};

// `Result` has the highest `order` that it needs, and `of(record, answers)`.
template <typename Result>
class Moment final : public Aggregate {
 public:
  Moment(const AggregateCall& call, StateRequests& states)
      : answers_(call),
        powers_(states.need(answers_.guarded() ? powers<Result::order, true> : powers<Result::order, false>,
                            call.columns())) {
    expect_doubles(call);
  }

  Type result_type() const override { return {TypeId::float64, 0, 0}; }
  bool result_nullable() const override { return true; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, result_type(), groups.size(), true);
    const auto& records = static_cast<const RecordState<Result::order + 1>&>(states[powers_]);
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& record = records[groups[i]];
      store_double(out, i, record[count] == 0 ? std::nullopt : Result::of(finished(record), answers_));
    }
  }

 private:
  static constexpr size_t order = Result::order;

  auto finished(const typename RecordState<order + 1>::Record& record) const {
    return answers_.guarded() ? record : Powers<order, false>::through_nothing(record);
  }

  Answers answers_;
  size_t powers_;
};

template <bool sample, bool root>
struct Variance {
  static constexpr size_t order = 2;
  static std::optional<double> of(const std::array<double, 3>& record, const Answers& answers) {
    const double divisor = record[count] - (sample ? 1 : 0);
    if (divisor == 0) return answers.undefined();
    const double variance = record[second] / divisor;
    return root ? std::sqrt(variance) : variance;
  }
};

struct Squares {
  static constexpr size_t order = 2;
  static std::optional<double> of(const std::array<double, 3>& record, const Answers&) { return record[second]; }
};

struct Skewness {
  static constexpr size_t order = 3;
  static std::optional<double> of(const std::array<double, 4>& record, const Answers& answers) {
    if (record[second] == 0) return answers.undefined();
    return answers.quotient(std::sqrt(record[count]) * record[third],
                            std::sqrt(record[second] * record[second] * record[second]));
  }
};

struct Kurtosis {
  static constexpr size_t order = 4;
  static std::optional<double> of(const std::array<double, 5>& record, const Answers& answers) {
    if (record[second] == 0) return answers.undefined();
    const auto quotient = answers.quotient(record[count] * record[fourth], record[second] * record[second]);
    return quotient ? std::optional(*quotient - 3) : std::nullopt;
  }
};

}  // namespace

std::shared_ptr<const Aggregate> make_variance(const AggregateCall& call, StateRequests& states) {
  if (call.function == "var_pop") return std::make_shared<Moment<Variance<false, false>>>(call, states);
  if (call.function == "var_samp") return std::make_shared<Moment<Variance<true, false>>>(call, states);
  if (call.function == "stddev_pop") return std::make_shared<Moment<Variance<false, true>>>(call, states);
  return std::make_shared<Moment<Variance<true, true>>>(call, states);
}

std::shared_ptr<const Aggregate> make_squares(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Moment<Squares>>(call, states);
}

std::shared_ptr<const Aggregate> make_skewness(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Moment<Skewness>>(call, states);
}

std::shared_ptr<const Aggregate> make_kurtosis(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Moment<Kurtosis>>(call, states);
}

}  // namespace pyslash
