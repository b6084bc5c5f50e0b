// Arithmetic of event-time windows and panes, all in microseconds.
//
// A window [start, start + size) starts at start_offset + k * slide. Panes of width gcd(size, slide), aligned likewise,
// are the coarsest slices of which every window is a whole number: a row updates one pane whatever the overlap.
#pragma once

#include <cstdint>
#include <vector>

namespace pyslash {

class Window {
 public:
  // Status::invalid_plan unless 0 < slide <= size <= max_size and |start_offset| <= max_size.
  Window(int64_t size_us, int64_t slide_us, int64_t start_offset_us);

  int64_t size_us() const { return size_; }
  int64_t slide_us() const { return slide_; }
  int64_t start_offset_us() const { return start_offset_; }
  int64_t pane_us() const { return pane_; }
  // Whether it stands for no window: whatever the time, there is one pane, which begins at 0.
  bool is_all_time() const { return size_ == max_size; }
  int64_t panes_per_window() const { return size_ / pane_; }

  // Start of the pane that holds a time. `time` must be in [min_time(), max_time()].
  int64_t pane_of(int64_t time) const { return start_offset_ + floor_div(time - start_offset_, pane_) * pane_; }
  // Starts of the first and the last window that contain a pane.
  int64_t first_window_of(int64_t pane) const {
    return start_offset_ + (floor_div(pane - size_ - start_offset_, slide_) + 1) * slide_;
  }
  int64_t last_window_of(int64_t pane) const {
    return start_offset_ + floor_div(pane - start_offset_, slide_) * slide_;
  }
  // Whether the last window that contains the pane ended at or before the watermark.
  bool is_late(int64_t pane, int64_t watermark) const { return last_window_of(pane) + size_ <= watermark; }

  // Times closer to the ends of int64 have windows whose bounds int64 cannot hold.
  int64_t min_time() const { return INT64_MIN + 4 * max_size; }
  int64_t max_time() const { return INT64_MAX - 4 * max_size; }

  static constexpr int64_t max_size = int64_t{1} << 59;  // 18 thousand years
  static constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

 private:
  int64_t size_;
  int64_t slide_;
  int64_t start_offset_;
  int64_t pane_;
};

}  // namespace pyslash
