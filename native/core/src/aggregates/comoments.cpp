// covar_pop, covar_samp, corr and regr_... of two float64 columns: from the number of pairs, the means, and the sums of
// squares and of products of distances from them. A pair with a null does not count. Merged as moments are
// (moments.cpp). Spark's slope and intercept of a regression round these sums otherwise than its other functions, so
// they have a state of their own, of the same numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "states/records.h"
#include "statistics.h"

namespace pyslash {
namespace {

enum Field : size_t { count, x_mean, y_mean, products, x_squares, y_squares };

using Pairs = std::array<double, 6>;

template <bool guarded, bool of_regression>
struct Comoments : Merging<Comoments<guarded, of_regression>, guarded> {
  static constexpr size_t inputs = 2;
  static constexpr size_t fields = std::tuple_size_v<Pairs>;
  using Record = Pairs;

  static void update(Record& to, double x, double y) {
    const double dx = x - to[x_mean];
    const double dy = y - to[y_mean];
    to[count] += 1;
    const double y_step = dy / to[count];
    to[x_mean] += dx / to[count];
    to[y_mean] += y_step;
    to[products] += of_regression ? dy * (x - to[x_mean]) : dx * (y - to[y_mean]);
    to[x_squares] += dx * (x - to[x_mean]);
    to[y_squares] += dy * (of_regression ? dy - y_step : y - to[y_mean]);
  }

  static void add(Record& to, const Record& from) {
    const double a = to[count], b = from[count];
    const double n = a + b;
    const double dx = distance<guarded>(a, to[x_mean], b, from[x_mean]);
    const double dy = distance<guarded>(a, to[y_mean], b, from[y_mean]);
    const double x_step = n == 0 ? 0 : dx / n;
    const double y_step = n == 0 ? 0 : dy / n;
    to[count] = n;
    to[x_mean] = merged_mean<guarded>(a, to[x_mean], b, from[x_mean], x_step);
    to[y_mean] = merged_mean<guarded>(a, to[y_mean], b, from[y_mean], y_step);
    to[products] = to[products] + from[products] + (of_regression ? dy * x_step : dx * y_step) * a * b;
    to[x_squares] = to[x_squares] + from[x_squares] + dx * x_step * a * b;
    to[y_squares] = to[y_squares] + from[y_squares] + dy * y_step * a * b;
  }
};

template <bool guarded, bool of_regression>
std::unique_ptr<StateColumn> make_comoments(std::span<const Type>) {
  return std::make_unique<Records<Comoments<guarded, of_regression>>>();
}

template <bool guarded, bool of_regression>
constinit const StateKind comoments{"comoments", make_comoments<guarded, of_regression>};

const StateKind& kind_of(const Answers& answers) {
  if (answers.own()) return answers.guarded() ? comoments<true, true> : comoments<false, true>;
  return answers.guarded() ? comoments<true, false> : comoments<false, false>;
}

using Result = std::optional<double> (*)(const Pairs&, const Answers&);

std::optional<double> covariance_of_all(const Pairs& record, const Answers&) {
  return record[products] / record[count];
}

std::optional<double> covariance_of_sample(const Pairs& record, const Answers& answers) {
  if (record[count] == 1) return answers.undefined();
  return record[products] / (record[count] - 1);
}

std::optional<double> correlation(const Pairs& record, const Answers& answers) {
  if (record[count] == 1 || record[x_squares] == 0 || record[y_squares] == 0) return answers.undefined();
  return answers.quotient(record[products], std::sqrt(record[x_squares] * record[y_squares]));
}

// Linear regression: the first column depends on the second one.
std::optional<double> sum_of_products(const Pairs& record, const Answers&) { return record[products]; }

std::optional<double> slope(const Pairs& record, const Answers& answers) {
  return record[y_squares] == 0 ? answers.undefined() : record[products] / record[y_squares];
}

std::optional<double> intercept(const Pairs& record, const Answers& answers) {
  if (record[y_squares] == 0) return answers.undefined();
  return record[x_mean] - record[products] / record[y_squares] * record[y_mean];
}

std::optional<double> determination(const Pairs& record, const Answers& answers) {
  if (record[y_squares] == 0) return answers.undefined();
  if (record[x_squares] == 0) return 1;
  const auto root = answers.quotient(record[products], std::sqrt(record[x_squares] * record[y_squares]));
  return root ? std::optional(*root * *root) : std::nullopt;
}

constexpr auto results = std::to_array<std::pair<std::string_view, Result>>({
    {"covar_pop", covariance_of_all},
    {"covar_samp", covariance_of_sample},
    {"corr", correlation},
    {"regr_sxy", sum_of_products},
    {"regr_slope", slope},
    {"regr_intercept", intercept},
    {"regr_r2", determination},
});

class Comoment final : public Aggregate {
 public:
  Comoment(Result result, const AggregateCall& call, StateRequests& states)
      : result_(result), answers_(call), comoments_(states.need(kind_of(answers_), call.columns())) {
    expect_doubles(call);
  }

  Type result_type() const override { return {TypeId::float64, 0, 0}; }
  bool result_nullable() const override { return true; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, result_type(), groups.size(), true);
    const auto& records = static_cast<const RecordState<std::tuple_size_v<Pairs>>&>(states[comoments_]);
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& record = records[groups[i]];
      store_double(out, i, record[count] == 0 ? std::nullopt : result_(finished(record), answers_));
    }
  }

 private:
  Pairs finished(const Pairs& record) const {
    if (answers_.guarded()) return record;
    return answers_.own() ? Comoments<false, true>::through_nothing(record)
                          : Comoments<false, false>::through_nothing(record);
  }

  Result result_;
  Answers answers_;
  size_t comoments_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_comoment(const AggregateCall& call, StateRequests& states) {
  const auto result = std::ranges::find(results, call.function, &std::pair<std::string_view, Result>::first);
  return std::make_shared<Comoment>(result->second, call, states);
}

}  // namespace pyslash
