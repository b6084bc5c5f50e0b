#include "prefix_walk.h"

#include <algorithm>

#include "pyslash/types.h"

namespace pyslash {
namespace {

constexpr uint64_t narrowest = all_prefixes >> 24;

}  // namespace

PrefixWalk::PrefixWalk(PrefixRange range, uint64_t target, uint64_t expected)
    : range_(range), target_(target), width_(all_prefixes), at_(range.lo) {
  while (expected > target_ && width_ > narrowest) {
    width_ /= 2;
    expected /= 2;
  }
}

PrefixRange PrefixWalk::current() const {
  const uint64_t end = (at_ / width_ + 1) * width_;
  return {at_, std::min(end, range_.hi)};
}

uint64_t PrefixWalk::limit() const {
  const PrefixRange range = current();
  return range.hi - range.lo <= narrowest ? UINT64_MAX : 4 * target_;
}

void PrefixWalk::shrink() {
  const PrefixRange range = current();
  while (width_ >= range.hi - range.lo) width_ /= 2;
  width_ = std::max(width_ / 2, narrowest);
}

void PrefixWalk::advance(uint64_t groups) {
  const PrefixRange left = current();
  at_ = left.hi;
  // An end of the range may have cut the partition: judge by what one of the full width would have held.
  const uint64_t full = scaled(left, groups) / (all_prefixes / width_);
  if (full > 2 * target_ && width_ > narrowest) {
    width_ /= 2;
  } else if (2 * full <= target_ && width_ < all_prefixes && at_ % (2 * width_) == 0) {
    width_ *= 2;
  }
}

uint64_t PrefixWalk::scaled(PrefixRange partition, uint64_t groups) {
  return static_cast<uint64_t>(static_cast<uint128_t>(groups) * all_prefixes / (partition.hi - partition.lo));
}

}  // namespace pyslash
