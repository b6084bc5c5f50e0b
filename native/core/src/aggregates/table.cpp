// The aggregate functions there are. A new one is a file beside this one and a line here.
#include "table.h"

#include <algorithm>
#include <array>
#include <string>

#include "pyslash/error.h"

namespace pyslash {
namespace {

constexpr std::string_view any_parameter = "*";  // the function itself reads it

struct Function {
  std::string_view name;
  std::shared_ptr<const Aggregate> (*make)(const AggregateCall&, StateRequests&);
  size_t least_inputs = 1;
  size_t most_inputs = 1;
  std::string_view parameter = {};  // the only one that it may have
};

constexpr auto functions = std::to_array<Function>({
    {"count", make_count, 0},
    {"sum", make_sum, 1, 1, "try"},
    {"avg", make_average},
    {"min", make_min},
    {"max", make_max},
    {"var_pop", make_variance, 1, 1, any_parameter},
    {"var_samp", make_variance, 1, 1, any_parameter},
    {"stddev_pop", make_variance, 1, 1, any_parameter},
    {"stddev_samp", make_variance, 1, 1, any_parameter},
    {"regr_sxx", make_squares, 1, 1, any_parameter},
    {"skewness", make_skewness, 1, 1, any_parameter},
    {"kurtosis", make_kurtosis, 1, 1, any_parameter},
    {"covar_pop", make_comoment, 2, 2, any_parameter},
    {"covar_samp", make_comoment, 2, 2, any_parameter},
    {"corr", make_comoment, 2, 2, any_parameter},
    {"regr_sxy", make_comoment, 2, 2, any_parameter},
    {"regr_slope", make_comoment, 2, 2, any_parameter},
    {"regr_intercept", make_comoment, 2, 2, any_parameter},
    {"regr_r2", make_comoment, 2, 2, any_parameter},
    {"bit_and", make_bits},
    {"bit_or", make_bits},
    {"bit_xor", make_bits},
    {"first", make_chosen, 1, 2, "ignore_nulls"},
    {"last", make_chosen, 1, 2, "ignore_nulls"},
    {"max_by", make_chosen, 2, 2},
    {"min_by", make_chosen, 2, 2},
    {"approx_count_distinct", make_approx_count_distinct, 1, 1, any_parameter},
    {"collect", make_collect, 1, 1, "folds"},
});

std::string inputs_of(const Function& function) {
  const std::string least = std::to_string(function.least_inputs);
  if (function.least_inputs == function.most_inputs) return least;
  return least + " to " + std::to_string(function.most_inputs);
}

}  // namespace

std::vector<int> AggregateCall::columns() const {
  std::vector<int> columns;
  for (const AggregateInput& of : inputs) columns.push_back(of.column);
  return columns;
}

void expect_doubles(const AggregateCall& call) {
  for (const AggregateInput& input : call.inputs) {
    if (input.of.type.id == TypeId::float64) continue;
    throw Error(Status::invalid_plan, "there is no " + std::string(call.function) + " over " + input.of.type.name());
  }
}

void divide_by_zero(const std::string& function) {
  throw Error(Status::arithmetic_overflow,
              "[DIVIDE_BY_ZERO] " + function +
                  " divides by zero, as squares of its distances from a mean are too small " +
                  "for a double. Scale its input, or set spark.sql.ansi.enabled to false. SQLSTATE: 22012");
}

StateRequests::StateRequests(const std::vector<Column>& columns, std::vector<StateSpec>& states)
    : columns_(columns), states_(states) {}

size_t StateRequests::need(const StateKind& kind, std::vector<int> columns) {
  StateSpec wanted{&kind, std::move(columns), {}};
  for (const int column : wanted.columns) wanted.types.push_back(columns_[static_cast<size_t>(column)].type);
  const auto place = static_cast<size_t>(std::ranges::find(states_, wanted) - states_.begin());
  if (place == states_.size()) states_.push_back(std::move(wanted));
  needed_.push_back(place);
  return place;
}

ValueCount::ValueCount(const AggregateInput& input, StateRequests& states) {
  if (input.of.nullable) nulls_ = states.need(nulls_state, {input.column});
}

ValueCount::Counts ValueCount::of(const StateSet& states) const {
  const auto* nulls = nulls_ == 0 ? nullptr : static_cast<const CountState&>(states[nulls_]).counts().data();
  return {states.rows().data(), nulls};
}

std::shared_ptr<const Aggregate> make_aggregate(const AggregateCall& call, StateRequests& states) {
  const auto* const function = std::ranges::find(functions, call.function, &Function::name);
  const std::string name(call.function);
  if (function == functions.end()) throw Error(Status::invalid_plan, "there is no aggregate '" + name + "'");
  if (call.inputs.size() < function->least_inputs || call.inputs.size() > function->most_inputs) {
    throw Error(Status::invalid_plan,
                name + " takes " + inputs_of(*function) + " columns, not " + std::to_string(call.inputs.size()));
  }
  if (!call.parameter.empty() && function->parameter != any_parameter && call.parameter != function->parameter) {
    throw Error(Status::invalid_plan, name + " has no parameter '" + std::string(call.parameter) + "'");
  }
  return function->make(call, states);
}

}  // namespace pyslash
