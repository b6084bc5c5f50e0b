// Which pane a time lies in, for times that jump between panes from row to row: without a division, and with the panes
// seen last at hand.
#pragma once

#include <cstdint>
#include <vector>

#include "pyslash/window.h"

namespace pyslash {

// Pane numbers count from the window's start offset: pane `n` starts at start_offset + n * pane_us.
class PaneNumbers {
 public:
  explicit PaneNumbers(const Window& window)
      : offset_(window.start_offset_us()), width_(window.pane_us()), inverse_(1.0 / static_cast<double>(width_)) {}

  int64_t operator()(int64_t time) const {
    const int64_t distance = time - offset_;
    if (distance < -exact_in_double || distance > exact_in_double) [[unlikely]] {
      return Window::floor_div(distance, width_);
    }
    // At most one off: the distance is exact, the quotient below 2^52, and the cast truncates.
    const auto number = static_cast<int64_t>(static_cast<double>(distance) * inverse_);
    const int64_t rest = distance - number * width_;
    return number + (rest < 0 ? -1 : rest >= width_ ? 1 : 0);
  }
  int64_t start(int64_t number) const { return offset_ + number * width_; }

 private:
  // A double holds 53 bits; one is left for the rounding of the product. 142 years either way.
  static constexpr int64_t exact_in_double = int64_t{1} << 52;
  int64_t offset_;
  int64_t width_;
  double inverse_;
};

// Pane numbers to what a slower directory holds for them; forgets whatever collides.
template <typename Entry>
class PaneCache {
 public:
  PaneCache() : slots_(size) {}

  // The entry of a pane; `find(number)` is asked if it is not at hand.
  template <typename Find>
  Entry get(int64_t number, Find&& find) {
    Slot& slot = slots_[static_cast<uint64_t>(number) % size];
    if (!slot.used || slot.number != number) slot = {number, find(number), true};
    return slot.entry;
  }

 private:
  static constexpr size_t size = 1024;
  struct Slot {
    int64_t number = 0;
    Entry entry{};
    bool used = false;
  };
  std::vector<Slot> slots_;
};

}  // namespace pyslash
