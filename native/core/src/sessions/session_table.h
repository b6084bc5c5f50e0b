// Sessions of many keys: those of a key that overlap or touch are one (docs/design/028).
//
// A *slot* is a group of `keys()` and `states()`. The sessions of a key are a list of slots, latest first; the list
// hangs on the key's *anchor*, the slot that the hash table knows it by, which may hold one of them or none.
//
//     table: key -> anchor      first[anchor] -> slot -> slot -> end      bounds[slot] = start, end, born
//
// Slots are never used again. Once most of them hold nothing, the table writes what it holds as segments, and reads
// them anew.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "merge/keyed_segment.h"
#include "pyslash/group_keys.h"
#include "pyslash/key_table.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"
#include "states/session_bounds.h"

namespace pyslash {

// Sessions of a batch's rows: bounds by row, of which those of `rows` are taken.
struct SessionInput {
  const EncodedKeys& keys;
  std::span<const uint32_t> rows;
  const int64_t* starts;
  const int64_t* ends;
  int64_t born;
};

class SessionTable {
 public:
  // Both must outlive it.
  SessionTable(const Plan& plan, const KeyCodec& codec);

  // groups[row] = the slot that takes the row, for the input's rows. Once the states have been updated, join().
  void take(const SessionInput& input, uint32_t* groups);
  void join();

  // Takes a segment's wanted rows, each in a slot of its own until it is settled.
  void stage(const KeyedSegment& segment);
  // Makes sessions of what is staged, as they came one after the other: those that had ended when a later one was born
  // are dropped first.
  void settle();
  // Joins what is staged where it makes no difference to any settle(), whatever else that has at hand. An empty
  // table's.
  void settle_apart();

  // Drops sessions that end by then.
  void evict(int64_t until_us);
  void clear();
  // Frees the slots that hold nothing, once they are most; slots are others then.
  void collect_garbage();

  // Slots that hold a session, of those that end by then.
  void sessions(int64_t until_us, std::vector<uint32_t>& slots) const;

  size_t size() const { return sessions_; }
  const GroupKeys& keys() const { return keys_; }
  StateSet& states() { return states_; }
  const StateSet& states() const { return states_; }
  const SessionBounds& bounds() const { return bounds_of(states_); }

  // A slot that is none of a session: for rows that count for nothing.
  static constexpr uint32_t ignored = 0;

 private:
  // What a slot is followed by in its list, or why it is in none.
  static constexpr uint32_t end = UINT32_MAX;
  static constexpr uint32_t unused = UINT32_MAX - 1;
  static constexpr uint32_t staged = UINT32_MAX - 2;
  static constexpr uint32_t dead = UINT32_MAX - 3;
  static bool in_list(uint32_t next) { return next == end || next < dead; }

  struct Staged {
    uint32_t anchor;
    uint32_t slot;
  };

  // As many slots as there are keys of groups, and some more.
  void fit(size_t spare = 0);
  // The anchor's own slot, or else a new one with the key of the row.
  uint32_t new_slot(uint32_t anchor, const EncodedKeys& keys, size_t row);
  // The slot of the session that takes [start, stop), which `make` makes if there is none. Its bounds are extended, and
  // sessions that it reaches then become part of it.
  template <typename Make>
  uint32_t add(uint32_t anchor, int64_t start, int64_t stop, Make&& make);
  // Drops the key's sessions that end by then.
  void cut(uint32_t anchor, int64_t until_us);
  // Puts what is staged into the order in which it is settled: by when it was born.
  void order_staged();
  // Whether parts that were born alike have to be in the order of their starts.
  bool starts_matter();
  // How many parts of each anchor are staged, into parts_; not beyond a few.
  void count_parts();
  void prefetch(size_t part) const;
  // One of two staged ones is part of the other's session in any case.
  bool belong_together(uint32_t one, uint32_t other) const;
  void settle_cluster(std::span<Staged> cluster, std::vector<uint32_t>& kept);

  const Plan& plan_;
  GroupKeys keys_;
  StateSet states_;
  KeyTable table_;
  std::vector<uint32_t> first_;                        // by anchor
  std::vector<uint32_t> last_;                         // by anchor: the slot that has taken something last, or had
  std::vector<uint32_t> next_;                         // by slot
  std::vector<std::pair<uint32_t, uint32_t>> joined_;  // into the first of the two, in this order
  std::vector<Staged> staged_;
  int64_t evicted_us_ = INT64_MIN;  // no session ends by then
  size_t sessions_ = 0;
  std::vector<uint32_t> anchors_;  // of a batch's or a segment's rows
  std::vector<uint32_t> slots_;
  std::vector<uint8_t> parts_;  // by anchor
  uint64_t steps_ = 0;          // past sessions of lists
  bool sorts_ = false;          // lists are long: rows are taken in the order of their lists
  std::vector<uint32_t> sorted_;
};

}  // namespace pyslash
