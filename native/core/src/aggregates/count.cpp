// count(*) and count(x).
#include "table.h"

namespace pyslash {
namespace {

class Count final : public Aggregate {
 public:
  Count(const AggregateCall& call, StateRequests& states)
      : values_(call.inputs.empty() ? ValueCount() : ValueCount(call.input(), states)) {}

  Type result_type() const override { return {TypeId::int64, 0, 0}; }
  bool result_nullable() const override { return false; }
  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    start(out, result_type(), groups.size(), false);
    const ValueCount::Counts counts = values_.of(states);
    for (size_t i = 0; i < groups.size(); ++i) store(out.values.data(), i, counts[groups[i]]);
  }

 private:
  ValueCount values_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_count(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Count>(call, states);
}

}  // namespace pyslash
