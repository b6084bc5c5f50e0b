// The key tables of panes. A stream's event times advance, so most panes are past and only a few get rows: a pane that
// has got none for a while gives its table, grown and in the cache, to the next one. Should it get a row after all, its
// table is made again from its groups.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "pyslash/group_keys.h"
#include "pyslash/key_table.h"

namespace pyslash {

// The groups of a pane.
struct Pane {
  std::vector<uint32_t> groups;
  std::vector<uint32_t> rows;  // of the current batch
  KeyTable table;              // of the groups, unless it has been given away
  bool has_table = false;
  uint64_t last_batch = 0;
};

class PaneTables {
 public:
  // Another batch begins.
  void next_batch() { ++batch_; }

  // The pane gets rows: it has its table from here on.
  void touch(Pane& pane, const GroupKeys& keys) {
    pane.last_batch = batch_;
    if (pane.has_table) return;
    pane.has_table = true;
    take_from_past(pane);
    with_table_.push_back(&pane);
    pane.table.restore(keys, pane.groups);
  }

 private:
  // Batches without a row after which a pane is past: to make its table again costs about as much as so many batches.
  static constexpr uint64_t patience = 64;

  // A table this many times larger than its pane's groups is not worth clearing.
  static constexpr size_t too_large = 8;

  void take_from_past(Pane& pane) {
    if (with_table_.empty()) return;
    Pane* first = with_table_.front();
    with_table_.pop_front();
    if (first->last_batch + patience >= batch_) {
      with_table_.push_back(first);
      return;
    }
    first->has_table = false;
    if (first->table.capacity() <= too_large * first->groups.size()) std::swap(first->table, pane.table);
    first->table = KeyTable();
  }

  uint64_t batch_ = 0;
  std::deque<Pane*> with_table_;  // in the order in which they got one, but for those that were not past when asked
};

}  // namespace pyslash
