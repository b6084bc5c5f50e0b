// bit_and, bit_or and bit_xor of integers.
#include <functional>
#include <string>

#include "pyslash/error.h"
#include "states/folded_value.h"
#include "table.h"

namespace pyslash {
namespace {

template <typename T, typename Operation>
struct Bitwise {
  static T identity() { return static_cast<T>(std::is_same_v<Operation, std::bit_and<>> ? -1 : 0); }
  static T of(T a, T b) { return static_cast<T>(Operation()(a, b)); }
};

template <typename Operation>
std::unique_ptr<StateColumn> make_bits(std::span<const Type> types) {
  switch (types[0].id) {
    case TypeId::int8:
      return std::make_unique<FoldedValue<int8_t, Bitwise<int8_t, Operation>>>();
    case TypeId::int16:
      return std::make_unique<FoldedValue<int16_t, Bitwise<int16_t, Operation>>>();
    case TypeId::int32:
      return std::make_unique<FoldedValue<int32_t, Bitwise<int32_t, Operation>>>();
    case TypeId::int64:
      return std::make_unique<FoldedValue<int64_t, Bitwise<int64_t, Operation>>>();
    default:
      throw Error(Status::invalid_plan, "there are no bit operations on " + types[0].name());
  }
}

constinit const StateKind and_state{"bit_and", make_bits<std::bit_and<>>};
constinit const StateKind or_state{"bit_or", make_bits<std::bit_or<>>};
constinit const StateKind xor_state{"bit_xor", make_bits<std::bit_xor<>>};

const StateKind& kind_of(std::string_view function) {
  return function == "bit_and" ? and_state : function == "bit_or" ? or_state : xor_state;
}

}  // namespace

std::shared_ptr<const Aggregate> make_bits(const AggregateCall& call, StateRequests& states) {
  if (!call.input().of.type.is_integer()) {
    throw Error(Status::invalid_plan,
                "there is no " + std::string(call.function) + " over " + call.input().of.type.name());
  }
  return make_value(kind_of(call.function), call, states);
}

}  // namespace pyslash
