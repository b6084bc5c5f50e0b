// Functions whose result is a state's own value, or null where no row had one.
#include "table.h"

namespace pyslash {
namespace {

class Value final : public Aggregate {
 public:
  Value(const StateKind& kind, const AggregateCall& call, StateRequests& states)
      : type_(call.input().of.type),
        nullable_(call.input().of.nullable),
        values_(call.input(), states),
        value_(states.need(kind, {call.input().column})) {}

  Type result_type() const override { return type_; }
  bool result_nullable() const override { return nullable_; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.type = type_;
    static_cast<const ValueState&>(states[value_]).gather(groups, out);
    out.valid.clear();
    if (!nullable_) return;
    out.valid.assign(groups.size(), 1);
    const ValueCount::Counts counts = values_.of(states);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (counts[groups[i]] != 0) continue;
      out.valid[i] = 0;
      // Strings of groups without a value are empty already.
      if (!type_.is_variable()) std::memset(out.values.data() + i * type_.width(), 0, type_.width());
    }
  }

 private:
  Type type_;
  bool nullable_;
  ValueCount values_;
  size_t value_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_value(const StateKind& kind, const AggregateCall& call, StateRequests& states) {
  return std::make_shared<Value>(kind, call, states);
}

}  // namespace pyslash
