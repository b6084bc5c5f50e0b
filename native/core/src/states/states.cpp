#include "pyslash/states.h"

#include <numeric>
#include <string>

#include "pyslash/error.h"
#include "states/counts.h"
#include "states/extreme_bytes.h"
#include "states/extremes.h"
#include "states/session_bounds.h"
#include "states/sums.h"

namespace pyslash {
namespace {

std::unique_ptr<StateColumn> make_add(std::span<const Type> types) {
  const Type& type = types[0];
  switch (type.id) {
    case TypeId::int8:
      return std::make_unique<ExactAdd<int8_t, int64_t>>();
    case TypeId::int16:
      return std::make_unique<ExactAdd<int16_t, int64_t>>();
    case TypeId::int32:
      return std::make_unique<ExactAdd<int32_t, int64_t>>();
    case TypeId::int64:
      return std::make_unique<ExactAdd<int64_t, int64_t>>();
    case TypeId::float32:
      return std::make_unique<FloatAdd<float>>();
    case TypeId::float64:
      return std::make_unique<FloatAdd<double>>();
    case TypeId::decimal:
      if (type.width() == 8) return std::make_unique<ExactAdd<int64_t, int64_t>>();
      return std::make_unique<ExactAdd<int128_t, int128_t>>();
    default:
      throw Error(Status::invalid_plan, "there is no sum over " + type.name());
  }
}

template <bool is_min>
std::unique_ptr<StateColumn> make_extreme(std::span<const Type> types) {
  const Type& type = types[0];
  switch (type.id) {
    case TypeId::boolean:
      return std::make_unique<ExtremeValue<uint8_t, is_min>>();
    case TypeId::int8:
      return std::make_unique<ExtremeValue<int8_t, is_min>>();
    case TypeId::int16:
      return std::make_unique<ExtremeValue<int16_t, is_min>>();
    case TypeId::int32:
    case TypeId::date:
      return std::make_unique<ExtremeValue<int32_t, is_min>>();
    case TypeId::int64:
    case TypeId::timestamp:
    case TypeId::timestamp_ntz:
      return std::make_unique<ExtremeValue<int64_t, is_min>>();
    case TypeId::float32:
      return std::make_unique<ExtremeValue<float, is_min>>();
    case TypeId::float64:
      return std::make_unique<ExtremeValue<double, is_min>>();
    case TypeId::decimal:
      if (type.width() == 8) return std::make_unique<ExtremeValue<int64_t, is_min>>();
      return std::make_unique<ExtremeValue<int128_t, is_min>>();
    case TypeId::string:
    case TypeId::binary:
      return std::make_unique<ExtremeBytes<is_min>>();
  }
  throw Error(Status::internal, "a type without an order");
}

template <bool counts_nulls>
std::unique_ptr<StateColumn> make_counter(std::span<const Type>) {
  return std::make_unique<Counter<counts_nulls>>();
}

std::unique_ptr<StateColumn> make_session(std::span<const Type>) { return std::make_unique<SessionBounds>(); }

}  // namespace

constinit const StateKind rows_state{"rows", make_counter<false>};
constinit const StateKind nulls_state{"nulls", make_counter<true>};
constinit const StateKind add_state{"add", make_add};
constinit const StateKind min_state{"min", make_extreme<true>};
constinit const StateKind max_state{"max", make_extreme<false>};
constinit const StateKind session_state{"session", make_session};

std::vector<std::vector<uint8_t>> nothing_seen(const StateSpec& spec, size_t groups) {
  const std::unique_ptr<StateColumn> state = spec.kind->make(spec.types);
  state->resize(groups);
  std::vector<uint32_t> all(groups);
  std::iota(all.begin(), all.end(), uint32_t{0});
  std::vector<uint64_t> lengths(state->buffers());
  state->measure(all, lengths);
  std::vector<std::vector<uint8_t>> buffers;
  for (const uint64_t length : lengths) buffers.emplace_back(length);
  state->write(all, std::vector<std::span<uint8_t>>(buffers.begin(), buffers.end()));
  return buffers;
}

StateSet::StateSet(const Plan& plan) {
  for (const StateSpec& spec : plan.states()) columns_.push_back(spec.kind->make(spec.types));
}

void StateSet::resize(size_t groups) {
  for (auto& column : columns_) column->resize(groups);
}

void StateSet::reset(size_t groups) {
  resize(0);
  resize(groups);
}

void StateSet::combine(size_t first, const StateSet& source, size_t source_first, size_t count) {
  for (size_t i = 0; i < columns_.size(); ++i) columns_[i]->combine(first, source[i], source_first, count);
}

const std::vector<int64_t>& StateSet::rows() const { return static_cast<const CountState&>(*columns_[0]).counts(); }

}  // namespace pyslash
