// Windows to emit, cut into runs that are merged one after the other. Within a run the windows overlap and share their
// panes; between runs keys are forgotten, so that keys of the past do not fill the arrays of the present.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/window.h"

namespace pyslash {

class WindowRuns {
 public:
  // `starts` in any order. Status::invalid_input if one is no start of a window of the plan.
  WindowRuns(const Window& window, std::span<const int64_t> starts);

  size_t size() const { return begins_.size(); }
  // Starts of the run's windows, ascending; each but the first starts before the one before it ends.
  std::span<const int64_t> operator[](size_t run) const;
  // Whether one of the windows holds the pane.
  bool hold(int64_t pane) const;

 private:
  int64_t size_us_;
  std::vector<int64_t> starts_;
  std::vector<size_t> begins_;
};

}  // namespace pyslash
