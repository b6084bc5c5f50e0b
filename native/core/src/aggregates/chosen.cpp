// first, last, max_by and min_by: the value of one of the group's rows, with its null if it has one. Which row that is,
// the rows' positions decide, and of max_by and min_by a second column before them. Of rows that this column has as
// equal, the last one counts, as in Spark; Spark's own order of rows is that of its tasks and of its shuffle.
#include <cmath>
#include <variant>

#include "states/buffers.h"
#include "states/byte_values.h"
#include "states/held.h"
#include "table.h"

namespace pyslash {
namespace {

// Spark's order: NaN is the greatest and equal to itself, as are the zeros.
template <typename T>
int compare(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
  }
  return a < b ? -1 : b < a ? 1 : 0;
}

// What rows are ordered by before their positions, one value a group: nothing, a value of fixed width, or bytes.
struct NoOrder {
  using Value = std::monostate;
  static constexpr size_t buffers = 0;
  void resize(size_t) {}
  Value operator[](size_t) const { return {}; }
  void set(size_t, Value) {}
  static Value value(const BatchColumn*, size_t) { return {}; }
  static Value value(std::span<const Bytes>, size_t) { return {}; }
  void measure(std::span<const uint32_t>, std::span<uint64_t>) const {}
  void write(std::span<const uint32_t>, std::span<const std::span<uint8_t>>) const {}
  static bool fits(std::span<const Bytes>, size_t) { return true; }
  static std::vector<size_t> offset_buffers() { return {}; }
};

template <typename T>
struct FixedOrder {
  using Value = T;
  static constexpr size_t buffers = 1;
  void resize(size_t groups) { values.resize(groups, T{}); }
  T operator[](size_t group) const { return values[group]; }
  void set(size_t group, T value) { values[group] = value; }
  static T value(const BatchColumn* column, size_t row) { return load<T>(column->values, row); }
  static T value(std::span<const Bytes> from, size_t row) { return load<T>(from[0].data(), row); }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const {
    lengths[0] = groups.size() * sizeof(T);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> out) const {
    gather_into(values, groups, out[0]);
  }
  static bool fits(std::span<const Bytes> from, size_t rows) { return from[0].size() == rows * sizeof(T); }
  static std::vector<size_t> offset_buffers() { return {}; }

  std::vector<T> values;
};

struct BytesOrder : ByteValues {
  using Value = BytesRef;
  using ByteValues::value;
  static BytesRef value(const BatchColumn* column, size_t row) { return load<BytesRef>(column->values, row); }
};

class ChosenState : public StateColumn {
 public:
  virtual const HeldValues& values() const = 0;
};

enum class Wanted : uint8_t { first, last, greatest, least };

// Inputs: the value; what orders the rows, of which null leaves its row out. `first` and `last` have no such column, or
// one of any type that is there for its nulls alone.
template <typename Order, Wanted wanted, bool ignores_nulls = false>
class Chosen final : public ChosenState {
 public:
  explicit Chosen(const Type& type) : values_(hold(type)) {}

  const HeldValues& values() const override { return *values_; }
  void resize(size_t groups) override {
    positions_.resize(groups, nowhere);
    order_.resize(groups);
    values_->resize(groups);
  }
  size_t size() const override { return positions_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    const BatchColumn* const order = input.columns.size() > 1 ? &input.columns[1] : nullptr;
    for (size_t i = 0; i < rows; ++i) {
      if (order != nullptr && order->valid != nullptr && !order->valid[i]) continue;
      if (ignores_nulls && column.valid != nullptr && !column.valid[i]) continue;
      const Position position{input.first.epoch, input.first.row + static_cast<int64_t>(i)};
      if (choose(groups[i], Order::value(order, i), position)) values_->take(groups[i], column, i);
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const auto& from = static_cast<const Chosen&>(source);
    for (size_t i = source_first; i < source_first + count; ++i) {
      const size_t group = first + i - source_first;
      if (from.positions_[i] == nowhere) continue;
      if (choose(group, from.order_[i], from.positions_[i])) values_->take(group, *from.values_, i);
    }
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    const auto order = buffers.subspan(2, Order::buffers);
    const auto values = buffers.subspan(2 + Order::buffers);
    for (size_t i = 0; i < rows; ++i) {
      const Position position{load<int64_t>(buffers[0].data(), i), load<int64_t>(buffers[1].data(), i)};
      if (position == nowhere) continue;
      if (choose(groups[i], Order::value(order, i), position)) values_->take(groups[i], values, i);
    }
  }

  // Epochs and rows, which are the least numbers where no row was chosen; order; values.
  size_t buffers() const override { return 2 + Order::buffers + values_->buffers(); }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = lengths[1] = groups.size() * sizeof(int64_t);
    order_.measure(groups, lengths.subspan(2, Order::buffers));
    values_->measure(groups, lengths.subspan(2 + Order::buffers));
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    for (size_t i = 0; i < groups.size(); ++i) {
      store(buffers[0].data(), i, positions_[groups[i]].epoch);
      store(buffers[1].data(), i, positions_[groups[i]].row);
    }
    order_.write(groups, buffers.subspan(2, Order::buffers));
    values_->write(groups, buffers.subspan(2 + Order::buffers));
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return buffers[0].size() == rows * sizeof(int64_t) && buffers[1].size() == rows * sizeof(int64_t) &&
           Order::fits(buffers.subspan(2, Order::buffers), rows) &&
           values_->fits(buffers.subspan(2 + Order::buffers), rows);
  }
  std::vector<size_t> offset_buffers() const override {
    std::vector<size_t> found;
    for (const size_t buffer : Order::offset_buffers()) found.push_back(2 + buffer);
    for (const size_t buffer : values_->offset_buffers()) found.push_back(2 + Order::buffers + buffer);
    return found;
  }
  uint64_t variable_bytes(std::span<const uint32_t> groups) const override { return values_->variable_bytes(groups); }

 private:
  static constexpr Position nowhere{INT64_MIN, INT64_MIN};

  // Whether the group's row is this one from now on.
  bool choose(size_t group, typename Order::Value order, Position position) {
    if (positions_[group] != nowhere && !precedes(group, order, position)) return false;
    positions_[group] = position;
    order_.set(group, order);
    return true;
  }
  bool precedes(size_t group, typename Order::Value order, Position position) const {
    if constexpr (wanted == Wanted::first) {
      return position < positions_[group];
    } else if constexpr (wanted == Wanted::last) {
      return position > positions_[group];
    } else {
      const int compared = compare(order, order_[group]);
      if (compared == 0) return position > positions_[group];
      return wanted == Wanted::greatest ? compared > 0 : compared < 0;
    }
  }

  std::vector<Position> positions_;
  Order order_;
  std::unique_ptr<HeldValues> values_;
};

template <Wanted wanted, bool ignores_nulls>
std::unique_ptr<StateColumn> make_by_position(std::span<const Type> types) {
  return std::make_unique<Chosen<NoOrder, wanted, ignores_nulls>>(types[0]);
}

template <Wanted wanted>
std::unique_ptr<StateColumn> make_by_order(std::span<const Type> types) {
  const Type& value = types[0];
  const Type& order = types[1];
  switch (order.id) {
    case TypeId::boolean:
      return std::make_unique<Chosen<FixedOrder<uint8_t>, wanted>>(value);
    case TypeId::int8:
      return std::make_unique<Chosen<FixedOrder<int8_t>, wanted>>(value);
    case TypeId::int16:
      return std::make_unique<Chosen<FixedOrder<int16_t>, wanted>>(value);
    case TypeId::int32:
    case TypeId::date:
      return std::make_unique<Chosen<FixedOrder<int32_t>, wanted>>(value);
    case TypeId::int64:
    case TypeId::timestamp:
    case TypeId::timestamp_ntz:
      return std::make_unique<Chosen<FixedOrder<int64_t>, wanted>>(value);
    case TypeId::float32:
      return std::make_unique<Chosen<FixedOrder<float>, wanted>>(value);
    case TypeId::float64:
      return std::make_unique<Chosen<FixedOrder<double>, wanted>>(value);
    case TypeId::decimal:
      if (order.width() == 8) return std::make_unique<Chosen<FixedOrder<int64_t>, wanted>>(value);
      return std::make_unique<Chosen<FixedOrder<int128_t>, wanted>>(value);
    case TypeId::string:
    case TypeId::binary:
      break;
  }
  return std::make_unique<Chosen<BytesOrder, wanted>>(value);
}

constinit const StateKind first_row{"first", make_by_position<Wanted::first, false>};
constinit const StateKind first_value{"first_value", make_by_position<Wanted::first, true>};
constinit const StateKind last_row{"last", make_by_position<Wanted::last, false>};
constinit const StateKind last_value{"last_value", make_by_position<Wanted::last, true>};
constinit const StateKind of_greatest{"max_by", make_by_order<Wanted::greatest>};
constinit const StateKind of_least{"min_by", make_by_order<Wanted::least>};

const StateKind& kind_of(const AggregateCall& call) {
  if (call.function == "max_by") return of_greatest;
  if (call.function == "min_by") return of_least;
  const bool ignores_nulls = call.parameter == "ignore_nulls";
  if (call.function == "first") return ignores_nulls ? first_value : first_row;
  return ignores_nulls ? last_value : last_row;
}

class OfChosen final : public Aggregate {
 public:
  OfChosen(const AggregateCall& call, StateRequests& states)
      : type_(call.input().of.type), chosen_(states.need(kind_of(call), call.columns())) {}

  Type result_type() const override { return type_; }
  bool result_nullable() const override { return true; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.type = type_;
    static_cast<const ChosenState&>(states[chosen_]).values().gather(groups, out);
  }

 private:
  Type type_;
  size_t chosen_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_chosen(const AggregateCall& call, StateRequests& states) {
  return std::make_shared<OfChosen>(call, states);
}

}  // namespace pyslash
