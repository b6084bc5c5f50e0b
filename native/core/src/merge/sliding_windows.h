// Windows of one run and partition by van Herk's method. With n panes a window, the panes are cut into blocks of n; a
// window is the end of one block and the beginning of the next:
//
//     panes     | 0 1 2 3 | 4 5 6 7 |            n = 4
//     window 2      [2 3    4 5]        = suffix[2] + prefix(4, 5)
//
// Suffixes are made in place, the prefix grows with the windows: two combinations a pane and one a window, however many
// windows a pane is in. Panes without groups take neither memory nor time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "pane_loader.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"
#include "segment_index.h"

namespace pyslash {

class SlidingWindows {
 public:
  SlidingWindows(const Plan& plan, const SegmentIndex& index, PaneLoader& loader);

  // Starts on the windows of a run, for the partition that the loader is set to. False as soon as more than `limit`
  // groups have been loaded: it must be begun again then, with a smaller partition.
  bool begin(std::span<const int64_t> windows, uint64_t limit);
  // The states of the next window; null if no window is left, or none that holds a pane. They are valid until the next
  // call.
  const StateSet* next();
  // Start of the window that next() returned.
  int64_t window() const { return windows_[at_ - 1]; }

 private:
  using Panes =
      std::map<uint64_t, std::unique_ptr<StateSet>>;  // by number within the block of n; only those that exist

  bool load(uint64_t block, Panes& panes, uint64_t limit);
  void turn_to(uint64_t block);
  void grow_prefix(uint64_t panes);
  const StateSet* states_of(uint64_t pane);
  std::unique_ptr<StateSet> take();
  void recycle(Panes& panes);

  const Plan& plan_;
  const SegmentIndex& index_;
  PaneLoader& loader_;
  const uint64_t pane_us_;
  const uint64_t n_;

  std::span<const int64_t> windows_;
  size_t at_ = 0;
  uint64_t block_ = 0;
  Panes suffixes_;  // of block_
  Panes panes_;     // of the block after it, once loaded
  bool next_loaded_ = false;
  StateSet prefix_;  // of panes_[0 .. prefix_panes_)
  uint64_t prefix_panes_ = 0;
  StateSet window_;
  std::vector<std::unique_ptr<StateSet>> pool_;
};

}  // namespace pyslash
