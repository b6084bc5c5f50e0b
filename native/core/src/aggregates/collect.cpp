// collect(x): every value of a binary column, in the order of their rows' positions, for somebody else to make one
// result of. The result of a group is a sequence of int64 epoch, int64 length, and the value, padded to 8 bytes.
//
// With the parameter `folds` a value begins with an int64: -1, or an epoch, if it stands for all values of the group up
// to the end of that epoch, which are forgotten then. Such a value is lost, or there twice, without any harm.
#include <algorithm>
#include <set>
#include <utility>

#include "pyslash/error.h"
#include "states/buffers.h"
#include "states/value_store.h"
#include "table.h"

namespace pyslash {
namespace {

constexpr size_t value_head = 2 * sizeof(int64_t);
constexpr int64_t end_of_epoch = INT64_MAX;  // in the place of a row: the value stands for all up to there
constexpr int64_t of_one_row = -1;

constexpr size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

bool fits_offsets(Bytes offsets, size_t count, size_t most) {
  if (offsets.size() != (count + 1) * sizeof(int32_t)) return false;
  int32_t last = 0;
  for (size_t i = 0; i <= count; ++i) {
    const auto offset = load<int32_t>(offsets.data(), i);
    if (offset < last || (i == 0 && offset != 0)) return false;
    last = offset;
  }
  return static_cast<size_t>(last) <= most;
}

// A list of values a group. Combining appends; a value's bytes are never copied from one state to another one.
template <bool folds>
class CollectedState final : public StateColumn {
 public:
  void resize(size_t groups) override {
    lists_.resize(groups);
    if (groups != 0) return;
    values_.clear();
    own_ = std::make_shared<ValueStore>();
    others_.clear();
  }
  size_t size() const override { return lists_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid != nullptr && !column.valid[i]) continue;
      Position position{input.first.epoch, input.first.row + static_cast<int64_t>(i)};
      auto value = load<BytesRef>(column.values, i);
      if constexpr (folds) position = without_head(value, position);
      append(groups[i], position, own_->keep(value));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const auto& from = static_cast<const CollectedState&>(source);
    if (&from != this) {
      others_.insert(from.own_);
      others_.insert(from.others_.begin(), from.others_.end());
    }
    for (size_t i = 0; i < count; ++i) {
      uint32_t at = from.lists_[source_first + i].first;
      for (uint32_t left = from.lists_[source_first + i].count; left != 0; --left) {
        const Value value = from.values_[at];  // a copy: appending may move it
        append(first + i, value.position, value.bytes);
        at = value.next;
      }
    }
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      const auto end = static_cast<size_t>(load<int32_t>(buffers[0].data(), i + 1));
      for (auto at = static_cast<size_t>(load<int32_t>(buffers[0].data(), i)); at < end; ++at) {
        const auto begin = static_cast<size_t>(load<int32_t>(buffers[1].data(), at));
        const auto size = static_cast<size_t>(load<int32_t>(buffers[1].data(), at + 1)) - begin;
        const Position position{load<int64_t>(buffers[2].data(), at), load<int64_t>(buffers[3].data(), at)};
        append(groups[i], position, own_->keep({buffers[4].data() + begin, size}));
      }
    }
  }

  // Where each group's values begin, where each value's bytes begin, the values' epochs and rows, their bytes.
  size_t buffers() const override { return 5; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    uint64_t values = 0;
    uint64_t bytes = 0;
    for (const uint32_t group : groups) {
      values += lists_[group].count;
      bytes += lists_[group].bytes;
    }
    if (std::max(values, bytes) > INT32_MAX) {
      throw Error(Status::invalid_input, "the collected values of one segment exceed 2 GiB");
    }
    lengths[0] = (groups.size() + 1) * sizeof(int32_t);
    lengths[1] = (values + 1) * sizeof(int32_t);
    lengths[2] = lengths[3] = values * sizeof(int64_t);
    lengths[4] = bytes;
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    size_t written = 0;
    size_t end = 0;
    store(buffers[0].data(), 0, int32_t{0});
    store(buffers[1].data(), 0, int32_t{0});
    std::vector<Value> values;
    for (size_t i = 0; i < groups.size(); ++i) {
      sort(groups[i], values);
      for (const Value& value : values) {
        if (value.bytes.size != 0) std::memcpy(buffers[4].data() + end, value.bytes.data, value.bytes.size);
        end += value.bytes.size;
        store(buffers[2].data(), written, value.position.epoch);
        store(buffers[3].data(), written, value.position.row);
        store(buffers[1].data(), ++written, static_cast<int32_t>(end));
      }
      store(buffers[0].data(), i + 1, static_cast<int32_t>(written));
    }
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    const size_t values = buffers[2].size() / sizeof(int64_t);
    return buffers[2].size() == values * sizeof(int64_t) && buffers[3].size() == buffers[2].size() &&
           fits_offsets(buffers[0], rows, values) && fits_offsets(buffers[1], values, buffers[4].size());
  }
  std::vector<size_t> offset_buffers() const override { return {0, 1}; }

  // What results take, at most.
  uint64_t variable_bytes(std::span<const uint32_t> groups) const override {
    uint64_t bytes = 0;
    for (const uint32_t group : groups) bytes += lists_[group].bytes + lists_[group].count * (value_head + 7);
    return bytes;
  }
  void gather(std::span<const uint32_t> groups, ResultColumn& out) const {
    out.valid.clear();
    out.values.clear();
    out.offsets.assign(1, 0);
    std::vector<Value> values;
    for (const uint32_t group : groups) {
      sort(group, values);
      for (const Value& value : values) {
        const size_t at = out.values.size();
        out.values.resize(at + value_head + padded(value.bytes.size));
        store(out.values.data() + at, 0, value.position.epoch);
        store(out.values.data() + at, 1, static_cast<int64_t>(value.bytes.size));
        if (value.bytes.size != 0) std::memcpy(&out.values[at + value_head], value.bytes.data, value.bytes.size);
      }
      if (out.values.size() > INT32_MAX) throw Error(Status::invalid_input, "the values of one result exceed 2 GiB");
      out.offsets.push_back(static_cast<int32_t>(out.values.size()));
    }
  }

 private:
  struct Value {
    Position position;
    BytesRef bytes;
    uint32_t next;
  };
  struct List {
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t count = 0;
    uint64_t bytes = 0;
    Position folded{INT64_MIN, INT64_MIN};  // a value stands for all up to there
  };

  // Takes the head off a value of a row at `position`; where the value stands.
  static Position without_head(BytesRef& value, const Position& position) {
    if (value.size < sizeof(int64_t)) throw Error(Status::invalid_input, "a value that folds has no epoch");
    const auto epoch = load<int64_t>(value.data, 0);
    value = {value.data + sizeof(int64_t), value.size - sizeof(int64_t)};
    return epoch == of_one_row ? position : Position{epoch, end_of_epoch};
  }

  // `bytes` live as long as one of the stores that this state holds.
  void append(size_t group, const Position& position, BytesRef bytes) {
    if constexpr (folds) {
      List& list = lists_[group];
      if (position <= list.folded) return;
      if (position.row == end_of_epoch) forget_until(list, position);
    }
    link(group, position, bytes);
  }

  // Leaves the values out that this position stands for. Their bytes stay until the state is cleared.
  void forget_until(List& list, const Position& position) {
    const List all = std::exchange(list, List{.folded = position});
    uint32_t at = all.first;
    for (uint32_t left = all.count; left != 0; --left) {
      const uint32_t next = values_[at].next;
      if (values_[at].position > position) attach(list, at);
      at = next;
    }
  }

  void link(size_t group, const Position& position, BytesRef bytes) {
    if (values_.size() == UINT32_MAX) throw Error(Status::invalid_input, "a state of more than 2^32 values");
    values_.push_back({position, bytes, 0});
    attach(lists_[group], static_cast<uint32_t>(values_.size() - 1));
  }

  void attach(List& list, uint32_t index) {
    if (list.count == 0) {
      list.first = index;
    } else {
      values_[list.last].next = index;
    }
    list.last = index;
    ++list.count;
    list.bytes += values_[index].bytes.size;
  }

  void sort(uint32_t group, std::vector<Value>& values) const {
    values.clear();
    uint32_t at = lists_[group].first;
    for (uint32_t left = lists_[group].count; left != 0; --left) {
      values.push_back(values_[at]);
      at = values_[at].next;
    }
    std::ranges::stable_sort(values, {}, &Value::position);
  }

  std::vector<List> lists_;
  std::vector<Value> values_;
  std::shared_ptr<ValueStore> own_ = std::make_shared<ValueStore>();
  std::set<std::shared_ptr<const ValueStore>> others_;
};

template <bool folds>
std::unique_ptr<StateColumn> make_collected(std::span<const Type>) {
  return std::make_unique<CollectedState<folds>>();
}

constinit const StateKind collected{"collect", make_collected<false>};
constinit const StateKind folded{"collect_folding", make_collected<true>};

class Collect final : public Aggregate {
 public:
  Collect(const AggregateCall& call, StateRequests& states)
      : folds_(!call.parameter.empty()), state_(states.need(folds_ ? folded : collected, call.columns())) {}

  Type result_type() const override { return {TypeId::binary}; }
  bool result_nullable() const override { return false; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.type = result_type();
    if (folds_) {
      static_cast<const CollectedState<true>&>(states[state_]).gather(groups, out);
    } else {
      static_cast<const CollectedState<false>&>(states[state_]).gather(groups, out);
    }
  }

 private:
  bool folds_;
  size_t state_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_collect(const AggregateCall& call, StateRequests& states) {
  if (call.input().of.type.id != TypeId::binary) {
    throw Error(Status::invalid_plan, "there is no collect over " + call.input().of.type.name());
  }
  return std::make_shared<Collect>(call, states);
}

}  // namespace pyslash
