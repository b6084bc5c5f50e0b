#include "sliding_windows.h"

#include <algorithm>

namespace pyslash {
namespace {

void add(StateSet& states, const StateSet& more) {
  if (more.groups() > states.groups()) states.resize(more.groups());
  states.combine(0, more, 0, more.groups());
}

}  // namespace

SlidingWindows::SlidingWindows(const Plan& plan, const SegmentIndex& index, PaneLoader& loader)
    : plan_(plan),
      index_(index),
      loader_(loader),
      pane_us_(static_cast<uint64_t>(plan.window().pane_us())),
      n_(static_cast<uint64_t>(plan.window().panes_per_window())),
      prefix_(plan),
      window_(plan) {}

bool SlidingWindows::begin(std::span<const int64_t> windows, uint64_t limit) {
  windows_ = windows;
  at_ = 0;
  block_ = 0;
  recycle(suffixes_);
  recycle(panes_);
  next_loaded_ = true;  // the first block is loaded as if it came after another one, then turned to
  prefix_.reset(0);
  prefix_panes_ = 0;
  if (!load(0, panes_, limit)) return false;
  turn_to(0);
  return true;
}

const StateSet* SlidingWindows::next() {
  while (at_ < windows_.size()) {
    const uint64_t pane = static_cast<uint64_t>(windows_[at_] - windows_[0]) / pane_us_;
    ++at_;
    while (block_ < pane / n_) turn_to(block_ + 1);
    if (const StateSet* states = states_of(pane % n_)) return states;
  }
  return nullptr;
}

// The window that starts `pane` panes into the block.
const StateSet* SlidingWindows::states_of(uint64_t pane) {
  if (pane > 0) grow_prefix(pane);
  const auto suffix = suffixes_.lower_bound(pane);
  if (suffix == suffixes_.end()) return prefix_.groups() == 0 ? nullptr : &prefix_;
  if (prefix_.groups() == 0) return suffix->second.get();
  // In place, unless a later window has the same suffix because panes are missing between their starts.
  const bool shared = at_ < windows_.size() &&
                      static_cast<uint64_t>(windows_[at_] - windows_[0]) / pane_us_ <= block_ * n_ + suffix->first;
  if (!shared) {
    add(*suffix->second, prefix_);
    return suffix->second.get();
  }
  window_.reset(0);
  add(window_, *suffix->second);
  add(window_, prefix_);
  return &window_;
}

// Makes the panes of the block, which follows the present one or is the first, its suffixes.
void SlidingWindows::turn_to(uint64_t block) {
  if (!next_loaded_) load(block, panes_, UINT64_MAX);
  recycle(suffixes_);
  std::swap(suffixes_, panes_);
  const StateSet* after = nullptr;
  for (auto pane = suffixes_.rbegin(); pane != suffixes_.rend(); ++pane) {
    if (after != nullptr) add(*pane->second, *after);
    after = pane->second.get();
  }
  block_ = block;
  next_loaded_ = false;
  prefix_.reset(0);
  prefix_panes_ = 0;
}

// Lets the prefix cover the first `panes` panes of the block after the present one.
void SlidingWindows::grow_prefix(uint64_t panes) {
  if (!next_loaded_) {
    load(block_ + 1, panes_, UINT64_MAX);
    next_loaded_ = true;
  }
  for (auto pane = panes_.lower_bound(prefix_panes_); pane != panes_.end() && pane->first < panes; ++pane) {
    add(prefix_, *pane->second);
  }
  prefix_panes_ = panes;
}

bool SlidingWindows::load(uint64_t block, Panes& panes, uint64_t limit) {
  const auto first = static_cast<int64_t>(static_cast<uint64_t>(windows_[0]) + block * n_ * pane_us_);
  const int64_t size = plan_.window().size_us();
  const int64_t end = std::min(first, windows_.back()) + size;  // beyond the last window nothing is needed
  for (const auto& [pane, segments] : panes_of(index_, first, end)) {
    if (!loader_.concerns(segments)) continue;
    auto states = take();
    loader_.load(segments, *states);
    panes.emplace(static_cast<uint64_t>(pane - first) / pane_us_, std::move(states));
    if (loader_.groups() > limit) return false;
  }
  return true;
}

std::unique_ptr<StateSet> SlidingWindows::take() {
  if (pool_.empty()) return std::make_unique<StateSet>(plan_);
  auto states = std::move(pool_.back());
  pool_.pop_back();
  states->reset(0);
  return states;
}

void SlidingWindows::recycle(Panes& panes) {
  for (auto& [number, states] : panes) pool_.push_back(std::move(states));
  panes.clear();
}

}  // namespace pyslash
