// min(x) and max(x) of every type that has an order.
#include "table.h"

namespace pyslash {

std::shared_ptr<const Aggregate> make_min(const AggregateCall& call, StateRequests& states) {
  return make_value(min_state, call, states);
}

std::shared_ptr<const Aggregate> make_max(const AggregateCall& call, StateRequests& states) {
  return make_value(max_state, call, states);
}

}  // namespace pyslash
