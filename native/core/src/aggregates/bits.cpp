// bit_and, bit_or and bit_xor of integers.
#include <functional>
#include <string>

#include "pyslash/error.h"
#include "states/buffers.h"
#include "table.h"

namespace pyslash {
namespace {

template <typename T, typename Operation>
class Bits final : public ValueState {
  static constexpr bool is_and = std::is_same_v<Operation, std::bit_and<>>;
  static constexpr T identity = static_cast<T>(is_and ? -1 : 0);

 public:
  void resize(size_t groups) override { values_.resize(groups, identity); }
  size_t size() const override { return values_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i]) add(groups[i], load<T>(column.values, i));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const T* from = static_cast<const Bits&>(source).values_.data() + source_first;
    for (size_t i = 0; i < count; ++i) add(first + i, from[i]);
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) add(groups[i], load<T>(buffers[0].data(), i));
  }
  size_t buffers() const override { return 1; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = groups.size() * sizeof(T);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    gather_into(values_, groups, buffers[0]);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return buffers[0].size() == rows * sizeof(T);
  }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.offsets.clear();
    out.values.resize(groups.size() * sizeof(T));
    gather_into(values_, groups, out.values);
  }

 private:
  void add(size_t group, T value) { values_[group] = static_cast<T>(Operation()(values_[group], value)); }

  std::vector<T> values_;
};

template <typename Operation>
std::unique_ptr<StateColumn> make_bits(std::span<const Type> types) {
  switch (types[0].id) {
    case TypeId::int8:
      return std::make_unique<Bits<int8_t, Operation>>();
    case TypeId::int16:
      return std::make_unique<Bits<int16_t, Operation>>();
    case TypeId::int32:
      return std::make_unique<Bits<int32_t, Operation>>();
    case TypeId::int64:
      return std::make_unique<Bits<int64_t, Operation>>();
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
