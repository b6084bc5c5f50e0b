// The aggregate functions there are. A new one is a file beside this one and a line here.
#include "table.h"

#include <array>
#include <string>
#include <utility>

#include "pyslash/error.h"

namespace pyslash {
namespace {

using Maker = std::shared_ptr<const Aggregate> (*)(const AggregateInput&, StateRequests&);

constexpr std::array<std::pair<std::string_view, Maker>, 5> functions{{
    {"count", make_count},
    {"sum", make_sum},
    {"avg", make_average},
    {"min", make_min},
    {"max", make_max},
}};

}  // namespace

StateRequests::StateRequests(const std::vector<Column>& columns, std::vector<StateSpec>& states)
    : columns_(columns), states_(states) {}

size_t StateRequests::need(StateKind kind, int column) {
  const StateSpec wanted{kind, column, columns_[static_cast<size_t>(column)].type};
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == wanted) return i;
  }
  states_.push_back(wanted);
  return states_.size() - 1;
}

ValueCount::ValueCount(int column, bool nullable, StateRequests& states) {
  if (nullable) nulls_ = states.need(StateKind::nulls, column);
}

ValueCount::Counts ValueCount::of(const StateSet& states) const {
  const auto* nulls = nulls_ == 0 ? nullptr : static_cast<const CountState&>(states[nulls_]).counts().data();
  return {states.rows().data(), nulls};
}

std::shared_ptr<const Aggregate> make_aggregate(std::string_view function, const AggregateInput& input,
                                                StateRequests& states) {
  for (const auto& [name, make] : functions) {
    if (name != function) continue;
    if (input.column < 0 && name != "count") {
      throw Error(Status::invalid_plan, std::string(function) + " needs a column");
    }
    return make(input, states);
  }
  throw Error(Status::invalid_plan, "there is no aggregate '" + std::string(function) + "'");
}

}  // namespace pyslash
