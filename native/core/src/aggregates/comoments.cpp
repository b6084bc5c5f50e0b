// covar_pop, covar_samp, corr and regr_... of two float64 columns: from the number of pairs, the means, and the sums of
// squares and of products of distances from them. A pair with a null does not count. Merged as moments are
// (moments.cpp).
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "states/records.h"
#include "table.h"

namespace pyslash {
namespace {

enum Field : size_t { count, x_mean, y_mean, products, x_squares, y_squares };

struct Comoments {
  static constexpr size_t inputs = 2;
  static constexpr size_t fields = 6;
  using Record = std::array<double, fields>;

  static void update(Record& to, double x, double y) {
    const double dx = x - to[x_mean];
    const double dy = y - to[y_mean];
    to[count] += 1;
    to[x_mean] += dx / to[count];
    to[y_mean] += dy / to[count];
    to[products] += dx * (y - to[y_mean]);
    to[x_squares] += dx * (x - to[x_mean]);
    to[y_squares] += dy * (y - to[y_mean]);
  }

  static void merge(Record& to, const Record& from) {
    const double a = to[count], b = from[count];
    const double n = a + b;
    const double dx = from[x_mean] - to[x_mean];
    const double dy = from[y_mean] - to[y_mean];
    const double x_step = n == 0 ? 0 : dx / n;
    const double y_step = n == 0 ? 0 : dy / n;
    to[count] = n;
    to[x_mean] = a == 0 ? from[x_mean] : to[x_mean] + x_step * b;
    to[y_mean] = a == 0 ? from[y_mean] : to[y_mean] + y_step * b;
    to[products] += from[products] + dx * y_step * a * b;
    to[x_squares] += from[x_squares] + dx * x_step * a * b;
    to[y_squares] += from[y_squares] + dy * y_step * a * b;
  }
};

std::unique_ptr<StateColumn> make_comoments(std::span<const Type>) { return std::make_unique<Records<Comoments>>(); }

constinit const StateKind comoments{"comoments", make_comoments};

// A result, or nothing where Spark would divide by zero.
using Result = std::optional<double> (*)(const Comoments::Record&);

std::optional<double> covariance_of_all(const Comoments::Record& record) { return record[products] / record[count]; }

std::optional<double> covariance_of_sample(const Comoments::Record& record) {
  if (record[count] == 1) return std::nullopt;
  return record[products] / (record[count] - 1);
}

std::optional<double> correlation(const Comoments::Record& record) {
  const double divisor = std::sqrt(record[x_squares] * record[y_squares]);
  if (record[count] == 1 || divisor == 0) return std::nullopt;
  return record[products] / divisor;
}

// Linear regression: the first column depends on the second one.
std::optional<double> sum_of_products(const Comoments::Record& record) { return record[products]; }

std::optional<double> slope(const Comoments::Record& record) {
  if (record[y_squares] == 0) return std::nullopt;
  return record[products] / record[y_squares];
}

std::optional<double> intercept(const Comoments::Record& record) {
  if (record[y_squares] == 0) return std::nullopt;
  return record[x_mean] - *slope(record) * record[y_mean];
}

std::optional<double> determination(const Comoments::Record& record) {
  if (record[y_squares] == 0) return std::nullopt;
  if (record[x_squares] == 0) return 1;
  const double root = record[products] / std::sqrt(record[x_squares] * record[y_squares]);
  return root * root;
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
      : result_(result), nan_(call.parameter == "nan"), comoments_(states.need(comoments, call.columns())) {
    expect_doubles(call);
  }

  Type result_type() const override { return {TypeId::float64, 0, 0}; }
  bool result_nullable() const override { return true; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, result_type(), groups.size(), true);
    const auto& records = static_cast<const Records<Comoments>&>(states[comoments_]);
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& record = records[groups[i]];
      store_double(out, i, record[count] == 0 ? std::nullopt : or_nan(result_(record), nan_));
    }
  }

 private:
  Result result_;
  bool nan_;
  size_t comoments_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_comoment(const AggregateCall& call, StateRequests& states) {
  const auto result = std::ranges::find(results, call.function, &std::pair<std::string_view, Result>::first);
  return std::make_shared<Comoment>(result->second, call, states);
}

}  // namespace pyslash
