#include "sessions/session_table.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "pyslash/crc32c.h"
#include "pyslash/record_batch.h"
#include "pyslash/segment.h"

namespace pyslash {
namespace {

constexpr size_t least_garbage = 4096;  // slots
constexpr size_t rewritten_sessions = 8192;
constexpr size_t spare_slots = 1024;  // while rows are taken, so that not every one of them makes arrays grow
// The list of a key with more parts than this would be walked too often, were they not in the order of their starts.
constexpr uint8_t most_unsorted = 64;
constexpr size_t parts_ahead = 32;  // of a prefetch

}  // namespace

SessionTable::SessionTable(const Plan& plan, const KeyCodec& codec) : plan_(plan), keys_(codec), states_(plan) {
  clear();
}

void SessionTable::clear() {
  keys_.clear();
  table_.clear();
  first_.clear();
  last_.clear();
  next_.clear();
  joined_.clear();
  staged_.clear();
  evicted_us_ = INT64_MIN;
  sessions_ = 0;
  keys_.append_unreachable();
  states_.reset(0);
  fit();
}

void SessionTable::fit(size_t spare) {
  const size_t slots = keys_.size() + spare;
  first_.resize(slots, end);
  last_.resize(slots, end);
  next_.resize(slots, unused);
  bounds_of(states_).resize(slots);
}

uint32_t SessionTable::new_slot(uint32_t anchor, const EncodedKeys& keys, size_t row) {
  if (next_[anchor] == unused) return anchor;
  const uint32_t slot = keys_.append(keys, row);
  if (slot >= next_.size()) fit(spare_slots);
  return slot;
}

template <typename Make>
uint32_t SessionTable::add(uint32_t anchor, int64_t start, int64_t stop, Make&& make) {
  SessionBounds& bounds = bounds_of(states_);
  uint32_t later = end;
  uint32_t at = first_[anchor];
  const uint32_t last = last_[anchor];
  if (last != end && in_list(next_[last]) && bounds.starts[last] > stop) {
    later = last;
    at = next_[last];
  }
  while (at != end && bounds.starts[at] > stop) {
    later = at;
    at = next_[at];
    ++steps_;
  }
  if (at == end || bounds.ends[at] < start) {
    const uint32_t slot = make();
    next_[slot] = at;
    (later == end ? first_[anchor] : next_[later]) = slot;
    last_[anchor] = slot;
    ++sessions_;
    return slot;
  }
  last_[anchor] = at;
  bounds.starts[at] = std::min(bounds.starts[at], start);
  bounds.ends[at] = std::max(bounds.ends[at], stop);
  for (uint32_t earlier = next_[at]; earlier != end && bounds.ends[earlier] >= bounds.starts[at]; earlier = next_[at]) {
    bounds.starts[at] = std::min(bounds.starts[at], bounds.starts[earlier]);
    next_[at] = next_[earlier];
    next_[earlier] = dead;
    --sessions_;
    joined_.emplace_back(at, earlier);
  }
  return at;
}

void SessionTable::take(const SessionInput& input, uint32_t* groups) {
  anchors_.resize(input.keys.hashes.size());
  table_.find_or_insert(input.keys, input.rows, keys_, anchors_.data());
  fit();
  SessionBounds& bounds = bounds_of(states_);
  std::span<const uint32_t> rows = input.rows;
  bool is_sorted = false;
  steps_ = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    sorts_ = sorts_ || steps_ > most_unsorted * (i + spare_slots);
    if (sorts_ && !is_sorted) {  // lists are long: what is left is taken in their order
      sorted_.assign(rows.begin() + static_cast<ptrdiff_t>(i), rows.end());
      std::ranges::stable_sort(sorted_, std::greater{}, [&](uint32_t row) { return input.starts[row]; });
      rows = sorted_;
      i = 0;
      is_sorted = true;
    }
    const uint32_t row = rows[i];
    const int64_t start = input.starts[row], stop = input.ends[row];
    groups[row] = add(anchors_[row], start, stop, [&] {
      const uint32_t slot = new_slot(anchors_[row], input.keys, row);
      bounds.starts[slot] = start;
      bounds.ends[slot] = stop;
      bounds.borns[slot] = input.born;
      return slot;
    });
  }
  fit();
  states_.resize(keys_.size());
}

void SessionTable::join() {
  // One state after the other: what is looked at by turns then is one array and not all of them.
  for (size_t state = 0; state < states_.size(); ++state) {
    for (const auto& [into, from] : joined_) states_[state].combine(into, states_[state], from, 1);
  }
  joined_.clear();
}

void SessionTable::stage(const KeyedSegment& segment) {
  segment.find_or_insert(table_, keys_, anchors_);
  fit();
  slots_.assign(segment.size(), ignored);
  const auto take = [&](uint32_t row) {
    slots_[row] = new_slot(anchors_[row], segment.keys(), row);
    next_[slots_[row]] = staged;
    staged_.push_back({anchors_[row], slots_[row]});
  };
  if (segment.whole()) {
    for (uint32_t row = 0; row < segment.size(); ++row) take(row);
  } else {
    for (const uint32_t row : segment.rows()) take(row);
  }
  fit();
  states_.resize(keys_.size());
  segment.merge(slots_, states_);
}

void SessionTable::settle() {
  order_staged();
  const SessionBounds& bounds = bounds_of(states_);
  for (size_t i = 0; i < staged_.size(); ++i) {
    prefetch(i);
    const auto& [anchor, slot] = staged_[i];
    if (bounds.borns[slot] > evicted_us_) cut(anchor, bounds.borns[slot]);
    const uint32_t at = add(anchor, bounds.starts[slot], bounds.ends[slot], [slot] { return slot; });
    if (at == slot) continue;
    next_[slot] = dead;
    joined_.emplace_back(at, slot);
  }
  staged_.clear();
  join();
}

void SessionTable::order_staged() {
  const SessionBounds& bounds = bounds_of(states_);
  const bool by_start = starts_matter();
  const auto key = [&](const Staged& one) {
    return std::pair(bounds.borns[one.slot], by_start ? bounds.starts[one.slot] : 0);
  };
  if (std::ranges::is_sorted(staged_, {}, key)) return;
  // Beside what they are sorted by: to look it up for each comparison misses the cache.
  std::vector<std::pair<std::pair<int64_t, int64_t>, Staged>> keyed;
  keyed.reserve(staged_.size());
  for (const Staged& one : staged_) keyed.emplace_back(key(one), one);
  std::ranges::stable_sort(keyed, {}, [](const auto& one) { return one.first; });
  for (size_t i = 0; i < keyed.size(); ++i) staged_[i] = keyed[i].second;
}

// Parts that were born alike make the same sessions in any order, unless one of them would be dropped by the next.
bool SessionTable::starts_matter() {
  const SessionBounds& bounds = bounds_of(states_);
  count_parts();
  return std::ranges::any_of(staged_, [&](const Staged& one) {
    const int64_t born = bounds.borns[one.slot];
    return (born > evicted_us_ && bounds.ends[one.slot] <= born) || parts_[one.anchor] > most_unsorted;
  });
}

void SessionTable::count_parts() {
  parts_.assign(first_.size(), 0);
  for (const Staged& one : staged_) {
    uint8_t& parts = parts_[one.anchor];
    parts = static_cast<uint8_t>(parts + (parts <= most_unsorted ? 1 : 0));
  }
}

// Before the part of this number is settled: fetches what later ones will look at.
void SessionTable::prefetch(size_t part) const {
  const SessionBounds& bounds = bounds_of(states_);
  if (part + parts_ahead < staged_.size()) __builtin_prefetch(&first_[staged_[part + parts_ahead].anchor]);
  if (part + parts_ahead / 2 >= staged_.size()) return;
  const uint32_t next = first_[staged_[part + parts_ahead / 2].anchor];
  if (next == end) return;
  __builtin_prefetch(&bounds.starts[next]);
  __builtin_prefetch(&bounds.ends[next]);
  __builtin_prefetch(&next_[next]);
}

void SessionTable::settle_apart() {
  const SessionBounds& bounds = bounds_of(states_);
  count_parts();
  // Most keys have one part, which nothing can be joined with.
  std::erase_if(staged_, [&](const Staged& one) {
    if (parts_[one.anchor] != 1) return false;
    next_[one.slot] = end;
    ++sessions_;
    return true;
  });
  std::ranges::sort(staged_, {}, [&](const Staged& one) { return std::pair(one.anchor, bounds.starts[one.slot]); });
  std::vector<uint32_t> kept;
  for (size_t begin = 0, stop = 0; begin < staged_.size(); begin = stop) {
    int64_t reached = bounds.ends[staged_[begin].slot];
    for (stop = begin + 1; stop < staged_.size() && staged_[stop].anchor == staged_[begin].anchor &&
                           bounds.starts[staged_[stop].slot] <= reached;
         ++stop) {
      reached = std::max(reached, bounds.ends[staged_[stop].slot]);
    }
    settle_cluster(std::span(staged_).subspan(begin, stop - begin), kept);
  }
  staged_.clear();
}

void SessionTable::settle_cluster(std::span<Staged> cluster, std::vector<uint32_t>& kept) {
  const SessionBounds& bounds = bounds_of(states_);
  std::ranges::stable_sort(cluster, {}, [&](const Staged& one) { return bounds.borns[one.slot]; });
  kept.clear();
  for (const Staged& one : cluster) {
    uint32_t slot = one.slot;
    while (true) {
      const auto found = std::ranges::find_if(kept, [&](uint32_t other) { return belong_together(slot, other); });
      if (found == kept.end()) break;
      states_.combine(*found, states_, slot, 1);
      next_[slot] = dead;
      slot = *found;
      kept.erase(found);
    }
    kept.push_back(slot);
  }
  for (const uint32_t slot : kept) next_[slot] = end;
  sessions_ += kept.size();
}

bool SessionTable::belong_together(uint32_t one, uint32_t other) const {
  const SessionBounds& bounds = bounds_of(states_);
  if (bounds.starts[one] > bounds.ends[other] || bounds.starts[other] > bounds.ends[one]) return false;
  if (bounds.borns[one] == bounds.borns[other]) return true;
  if (bounds.borns[one] > bounds.borns[other]) std::swap(one, other);
  // The earlier one was there when the later one came. What the later one reaches beside it had not been emitted then,
  // so it may as well have been there from the first.
  return bounds.ends[one] > bounds.borns[other] &&
         (bounds.starts[other] >= bounds.starts[one] || bounds.starts[other] > bounds.borns[other]);
}

void SessionTable::cut(uint32_t anchor, int64_t until_us) {
  const SessionBounds& bounds = bounds_of(states_);
  uint32_t later = end;
  uint32_t at = first_[anchor];
  while (at != end && bounds.ends[at] > until_us) {
    later = at;
    at = next_[at];
  }
  if (at == end) return;
  (later == end ? first_[anchor] : next_[later]) = end;
  while (at != end) {
    const uint32_t earlier = next_[at];
    next_[at] = dead;
    --sessions_;
    at = earlier;
  }
}

void SessionTable::evict(int64_t until_us) {
  if (until_us <= evicted_us_) return;
  evicted_us_ = until_us;
  for (uint32_t anchor = 0; anchor < first_.size(); ++anchor) {
    if (first_[anchor] != end) cut(anchor, until_us);
  }
}

void SessionTable::sessions(int64_t until_us, std::vector<uint32_t>& slots) const {
  const SessionBounds& bounds = bounds_of(states_);
  slots.clear();
  for (uint32_t slot = 0; slot < next_.size(); ++slot) {
    if (in_list(next_[slot]) && bounds.ends[slot] <= until_us) slots.push_back(slot);
  }
}

void SessionTable::collect_garbage() {
  if (next_.size() < 2 * sessions_ + least_garbage) return;
  std::vector<uint32_t> slots;
  sessions(INT64_MAX, slots);
  SegmentWriter writer(keys_, states_);
  std::vector<uint64_t> lengths;
  std::vector<std::pair<SegmentEntry, Buffer>> segments;
  for (size_t begin = 0; begin < slots.size(); begin += rewritten_sessions) {
    const auto some = std::span(slots).subspan(begin, std::min(rewritten_sessions, slots.size() - begin));
    SegmentEntry entry{};
    entry.rows = static_cast<uint32_t>(some.size());
    entry.length = writer.measure(some, lengths);
    Buffer bytes;
    const std::span<uint8_t> out(bytes.extend(entry.length), entry.length);
    writer.write(some, lengths, out);
    entry.crc = crc32c(out.data(), out.size());
    segments.emplace_back(entry, std::move(bytes));
  }
  const int64_t evicted_us = evicted_us_;
  clear();
  KeyedSegment segment(plan_);
  for (const auto& [entry, bytes] : segments) {
    segment.open({entry, {bytes.data(), bytes.size()}}, {0, all_prefixes});
    stage(segment);
  }
  settle();
  evicted_us_ = evicted_us;
}

}  // namespace pyslash
