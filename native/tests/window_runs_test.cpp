#include "merge/window_runs.h"

#include <gtest/gtest.h>

#include <vector>

#include "expect_error.h"

namespace pyslash {
namespace {

std::vector<std::vector<int64_t>> runs_of(const Window& window, const std::vector<int64_t>& starts) {
  const WindowRuns runs(window, starts);
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 0; i < runs.size(); ++i) all.emplace_back(runs[i].begin(), runs[i].end());
  return all;
}

using Runs = std::vector<std::vector<int64_t>>;

TEST(WindowRuns, TumblingWindowsAreRunsOfTheirOwn) {
  EXPECT_EQ(runs_of(Window(10, 10, 0), {20, 0, 10, 10}), (Runs{{0}, {10}, {20}}));
  EXPECT_EQ(runs_of(Window(10, 10, 0), {}), Runs{});
}

TEST(WindowRuns, OverlappingWindowsShareARunOfFourSizes) {
  EXPECT_EQ(runs_of(Window(10, 5, 0), {-5, 0, 5, 10, 15, 20, 25, 30, 35, 40}),
            (Runs{{-5, 0, 5, 10, 15, 20, 25, 30}, {35, 40}}));
}

TEST(WindowRuns, AGapOfAWindowEndsARun) {
  EXPECT_EQ(runs_of(Window(10, 5, 0), {0, 5, 15, 20}), (Runs{{0, 5}, {15, 20}}));
  EXPECT_EQ(runs_of(Window(12, 5, 0), {0, 10, 25}), (Runs{{0, 10}, {25}}));
}

TEST(WindowRuns, ExtremeStartsDoNotOverflow) {
  const Window window(10, 10, 0);
  const int64_t first = window.first_window_of(window.pane_of(window.min_time()));
  const int64_t last = window.last_window_of(window.pane_of(window.max_time()));
  EXPECT_EQ(runs_of(window, {last, first}), (Runs{{first}, {last}}));
}

TEST(WindowRuns, HoldSaysWhichPanesAreNeeded) {
  const WindowRuns runs(Window(10, 5, 0), std::vector<int64_t>{0, 30});
  for (int64_t pane = -10; pane < 50; pane += 5) {
    EXPECT_EQ(runs.hold(pane), pane == 0 || pane == 5 || pane == 30 || pane == 35) << pane;
  }
}

TEST(WindowRuns, OnlyStartsOfWindowsAreTaken) {
  const auto with = [](int64_t start) { return [=] { WindowRuns(Window(10, 5, 2), std::vector{start}); }; };
  expect_error(Status::invalid_input, "no window starts at 5 us: windows of 10 us start every 5 us from 2", with(5));
  expect_error(Status::invalid_input, "no window starts at", with(INT64_MIN));
  expect_error(Status::invalid_input, "no window starts at", with(INT64_MAX));
}

}  // namespace
}  // namespace pyslash
