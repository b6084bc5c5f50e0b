#include "window_runs.h"

#include <algorithm>
#include <string>

#include "pyslash/error.h"

namespace pyslash {
namespace {

// A run's windows start within this many window sizes of each other. The panes that two runs share are read for both:
// at four sizes that is a quarter more.
constexpr uint64_t sizes_a_run = 4;

void check(const Window& window, int64_t start) {
  const bool in_bounds = start >= window.min_time() - window.size_us() && start <= window.max_time();
  if (in_bounds && window.last_window_of(start) == start) return;
  throw Error(Status::invalid_input, "no window starts at " + std::to_string(start) + " us: windows of " +
                                         std::to_string(window.size_us()) + " us start every " +
                                         std::to_string(window.slide_us()) + " us from " +
                                         std::to_string(window.start_offset_us()));
}

}  // namespace

WindowRuns::WindowRuns(const Window& window, std::span<const int64_t> starts)
    : size_us_(window.size_us()), starts_(starts.begin(), starts.end()) {
  for (const int64_t start : starts_) check(window, start);
  std::ranges::sort(starts_);
  const auto repeated = std::ranges::unique(starts_);
  starts_.erase(repeated.begin(), repeated.end());

  const auto size = static_cast<uint64_t>(size_us_);
  const uint64_t span = window.panes_per_window() == 1 ? size : sizes_a_run * size;
  const auto distance = [this](size_t from, size_t to) {  // in uint64: starts may be further apart than int64 can say
    return static_cast<uint64_t>(starts_[to]) - static_cast<uint64_t>(starts_[from]);
  };
  for (size_t i = 0; i < starts_.size(); ++i) {
    if (i == 0 || distance(begins_.back(), i) >= span || distance(i - 1, i) >= size) begins_.push_back(i);
  }
}

std::span<const int64_t> WindowRuns::operator[](size_t run) const {
  const size_t end = run + 1 < begins_.size() ? begins_[run + 1] : starts_.size();
  return std::span(starts_).subspan(begins_[run], end - begins_[run]);
}

bool WindowRuns::hold(int64_t pane) const {
  const auto after = std::ranges::upper_bound(starts_, pane);
  return after != starts_.begin() && pane - *std::prev(after) < size_us_;
}

}  // namespace pyslash
