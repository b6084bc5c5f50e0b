// Cuts a range of hash prefixes into partitions of about `target` groups each, learning as it goes how many groups a
// partition turns out to hold. Partitions start and end at multiples of their power-of-two width, as segments do, so a
// segment is seldom read for more than one of them.
#pragma once

#include <cstdint>

#include "segment_index.h"

namespace pyslash {

class PrefixWalk {
 public:
  // `expected`: groups that the whole prefix space is thought to hold.
  PrefixWalk(PrefixRange range, uint64_t target, uint64_t expected);

  bool done() const { return at_ >= range_.hi; }
  PrefixRange current() const;
  // Groups beyond which the current partition should be given up and begun anew, smaller, by shrink().
  uint64_t limit() const;
  void shrink();
  // To the next partition; the current one held this many groups.
  void advance(uint64_t groups);

  // What the whole prefix space would hold if all of it were like this partition of so many groups.
  static uint64_t scaled(PrefixRange partition, uint64_t groups);

 private:
  PrefixRange range_;
  uint64_t target_;
  uint64_t width_;
  uint64_t at_;
};

}  // namespace pyslash
