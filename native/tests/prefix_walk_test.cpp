#include "merge/prefix_walk.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

namespace pyslash {
namespace {

bool is_aligned(PrefixRange range) {
  const uint64_t width = range.hi - range.lo;
  return std::has_single_bit(width) && range.lo % width == 0;
}

// Walks as a merge does, over a population of `density` groups in the whole prefix space.
std::vector<PrefixRange> walked(PrefixWalk walk, double density) {
  std::vector<PrefixRange> partitions;
  while (!walk.done()) {
    const PrefixRange range = walk.current();
    const auto groups = static_cast<uint64_t>(density * static_cast<double>(range.hi - range.lo) / all_prefixes);
    if (groups > walk.limit()) {
      walk.shrink();
      continue;
    }
    partitions.push_back(range);
    walk.advance(groups);
  }
  return partitions;
}

TEST(PrefixWalk, CoversTheRangeWithoutGapOrOverlap) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    uint64_t lo = random() % all_prefixes;
    uint64_t hi = random() % all_prefixes + 1;
    if (lo >= hi) std::swap(lo, --hi);
    if (lo == hi) ++hi;
    const double density = static_cast<double>(random() % 10'000'000);
    const auto partitions = walked(PrefixWalk({lo, hi}, 8192, random() % 10'000'000), density);
    ASSERT_EQ(partitions.front().lo, lo);
    ASSERT_EQ(partitions.back().hi, hi);
    for (size_t p = 1; p < partitions.size(); ++p) {
      ASSERT_EQ(partitions[p].lo, partitions[p - 1].hi);
      ASSERT_TRUE(p + 1 == partitions.size() || is_aligned(partitions[p]));
    }
  }
}

TEST(PrefixWalk, AGoodGuessNeedsNoCorrection) {
  const auto partitions = walked(PrefixWalk({0, all_prefixes}, 8192, 60'000), 60'000);
  EXPECT_EQ(partitions.size(), 8u);
  EXPECT_EQ(walked(PrefixWalk({0, all_prefixes}, 8192, 10), 10).size(), 1u);
}

TEST(PrefixWalk, LearnsThatThereAreMoreOrFewerGroupsThanExpected) {
  for (const auto& [expected, actual] : {std::pair{1'000.0, 4e6}, {4e6, 1'000.0}, {0.0, 4e6}, {1e9, 4e6}}) {
    const auto partitions = walked(PrefixWalk({0, all_prefixes}, 8192, static_cast<uint64_t>(expected)), actual);
    const auto ideal = static_cast<size_t>(actual / 8192) + 1;
    EXPECT_LE(partitions.size(), 4 * ideal + 32) << expected;
    EXPECT_GE(4 * partitions.size(), ideal) << expected;
  }
}

TEST(PrefixWalk, APartitionThatCannotShrinkHasNoLimit) {
  PrefixWalk walk({0, all_prefixes}, 1, ~uint64_t{0});
  EXPECT_EQ(walk.limit(), UINT64_MAX);
  PrefixWalk narrow({77, 78}, 8192, 0);
  EXPECT_EQ(narrow.limit(), UINT64_MAX);
  narrow.advance(1'000'000);
  EXPECT_TRUE(narrow.done());
}

TEST(PrefixWalk, ShrinkingAPartitionThatAnEndHasCutNarrowsIt) {
  PrefixWalk walk({all_prefixes - (1 << 20), all_prefixes}, 8192, 0);
  while (walk.limit() != UINT64_MAX) {
    const PrefixRange before = walk.current();
    walk.shrink();
    ASSERT_LT(walk.current().hi, before.hi);
    ASSERT_EQ(walk.current().lo, before.lo);
  }
}

}  // namespace
}  // namespace pyslash
