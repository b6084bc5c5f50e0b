// The state that makes a group a part of a session: when it starts and ends, and what was evicted when it began.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "pyslash/states.h"
#include "states/buffers.h"

namespace pyslash {

// Microseconds. `born`: sessions that ended by then had been emitted when the first row of this one came, and take no
// part in it (docs/design/028).
class SessionBounds final : public StateColumn {
 public:
  std::vector<int64_t> starts, ends, borns;

  void resize(size_t groups) override {
    starts.resize(groups, never);
    ends.resize(groups, std::numeric_limits<int64_t>::min());
    borns.resize(groups, never);
  }
  size_t size() const override { return starts.size(); }

  // Rows say nothing of it by themselves: whoever finds their sessions sets the bounds.
  void update(const StateInput&, const uint32_t*, size_t) override {}

  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const auto& from = static_cast<const SessionBounds&>(source);
    for (size_t i = 0; i < count; ++i) {
      add(first + i, from.starts[source_first + i], from.ends[source_first + i], from.borns[source_first + i]);
    }
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      add(groups[i], load<int64_t>(buffers[0].data(), i), load<int64_t>(buffers[1].data(), i),
          load<int64_t>(buffers[2].data(), i));
    }
  }

  size_t buffers() const override { return 3; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    std::ranges::fill(lengths, groups.size() * sizeof(int64_t));
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    gather_into(starts, groups, buffers[0]);
    gather_into(ends, groups, buffers[1]);
    gather_into(borns, groups, buffers[2]);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return std::ranges::all_of(buffers, [&](Bytes buffer) { return buffer.size() == rows * sizeof(int64_t); });
  }

 private:
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();

  void add(size_t group, int64_t start, int64_t end, int64_t born) {
    starts[group] = std::min(starts[group], start);
    ends[group] = std::max(ends[group], end);
    borns[group] = std::min(borns[group], born);
  }
};

// That of the states of a plan of sessions.
inline SessionBounds& bounds_of(StateSet& states) { return static_cast<SessionBounds&>(states[session_state_index]); }
inline const SessionBounds& bounds_of(const StateSet& states) {
  return static_cast<const SessionBounds&>(states[session_state_index]);
}

}  // namespace pyslash
