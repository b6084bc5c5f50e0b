#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>
#include <vector>

#include "expect_error.h"
#include "pyslash/compact.h"
#include "pyslash/merge.h"
#include "sums.h"

namespace pyslash {
namespace {

using namespace sums;

class Case {
 public:
  Case(int64_t size, int64_t slide) : plan(plan_of(size, slide)) {}

  void add_block(const std::vector<Row>& rows, int64_t epoch) {
    heads.push_back(*sealed(plan, arena, rows, epoch));
    all.insert(all.end(), rows.begin(), rows.end());
  }

  std::vector<int64_t> windows() const {
    std::vector<int64_t> starts;
    for (const Row& row : all) {
      const std::vector<int64_t> of_row = windows_of(plan->window(), row.time);
      starts.insert(starts.end(), of_row.begin(), of_row.end());
    }
    return starts;
  }

  Result expected(const std::vector<int64_t>& starts) const {
    Result result;
    for (const int64_t start : std::set<int64_t>(starts.begin(), starts.end())) {
      for (const Row& row : all) {
        if (row.time < start || row.time >= start + plan->window().size_us()) continue;
        auto& [rows, sum] = result[{start, row.key}];
        ++rows;
        sum += row.value;
      }
    }
    return result;
  }

  Result merged(const std::vector<int64_t>& starts, uint64_t prefix_lo, uint64_t prefix_hi, size_t max_rows) const {
    Merger merger(plan, starts, prefix_lo, prefix_hi);
    for (const Head& head : heads) {
      merger.add(head, 0, arena.view(head.header.arena_offset, head.header.length));
    }
    return collected(*plan, max_rows, [&](size_t rows) { return merger.next(rows); });
  }

  std::shared_ptr<const Plan> plan;
  Arena arena = new_arena();
  std::vector<Head> heads;
  std::vector<Row> all;
};

TEST(Merger, WindowsOfAnyShapeHoldTheirRows) {
  std::mt19937_64 random(11);
  for (const auto& [size, slide] : {std::pair{10, 10}, {10, 1}, {10, 4}, {12, 8}, {9, 3}, {7, 5}, {1000, 1}}) {
    for (const int64_t times : {30, 400}) {
      Case test(size, slide);
      for (int64_t block = 0; block < 3; ++block) {
        test.add_block(random_rows(random, 120, -times / 3, times, 20), block);
      }
      std::vector<int64_t> starts = test.windows();
      ASSERT_EQ(test.merged(starts, 0, uint64_t{1} << 32, 1000), test.expected(starts)) << size << "/" << slide;
      // Half of them, so that panes of windows that are not wanted lie between.
      std::erase_if(starts, [&](int64_t start) { return (start / slide) % 3 == 0; });
      ASSERT_EQ(test.merged(starts, 0, uint64_t{1} << 32, 3), test.expected(starts)) << size << "/" << slide;
    }
  }
}

TEST(Merger, PrefixRangesCutTheKeysAndNothingElse) {
  std::mt19937_64 random(12);
  Case test(10, 5);
  for (int64_t block = 0; block < 2; ++block) test.add_block(random_rows(random, 20'000, -6, 20, 30'000), block);
  const std::vector<int64_t> starts = test.windows();
  Result united;
  uint64_t lo = 0;
  for (const uint64_t hi : {uint64_t{1}, uint64_t{1} << 29, uint64_t{3} << 30, uint64_t{1} << 32}) {
    united.merge(test.merged(starts, lo, hi, 5000));
    lo = hi;
  }
  EXPECT_EQ(united, test.expected(starts));
}

TEST(Merger, ManyMergersReadTheSameBlocksAtOnce) {
  std::mt19937_64 random(13);
  Case test(10, 2);
  for (int64_t block = 0; block < 3; ++block) test.add_block(random_rows(random, 4'000, -20, 60, 3'000), block);
  const std::vector<int64_t> starts = test.windows();
  const Result expected = test.expected(starts);
  std::vector<Result> results(4);
  std::vector<std::thread> threads;
  for (Result& result : results) {
    threads.emplace_back([&] { result = test.merged(starts, 0, uint64_t{1} << 32, 777); });
  }
  std::vector<uint64_t> offsets;
  for (const Head& head : test.heads) offsets.push_back(head.header.arena_offset);
  std::vector<uint8_t> compacted;
  threads.emplace_back([&] { compacted = compact(test.plan, test.arena, offsets, INT64_MIN, {query, 9, 0}); });
  for (std::thread& thread : threads) thread.join();
  for (const Result& result : results) EXPECT_EQ(result, expected);
  test.heads = {read_head(compacted)};
  EXPECT_EQ(test.merged(starts, 0, uint64_t{1} << 32, 777), expected);
}

TEST(Merger, SharesThatAreFoldedAtOnceAreTheWhole) {
  std::mt19937_64 random(17);
  Case test(10, 2);
  for (int64_t block = 0; block < 6; ++block) test.add_block(random_rows(random, 4'000, -20, 60, 3'000), block);
  const std::vector<int64_t> starts = test.windows();
  const Result expected = test.expected(starts);
  std::vector<uint64_t> offsets;
  uint64_t rows = 0;
  for (const Head& head : test.heads) {
    offsets.push_back(head.header.arena_offset);
    rows += head.header.rows;
  }
  std::vector<std::vector<uint8_t>> folded(4);
  std::vector<std::thread> threads;
  for (uint32_t share = 0; share < 4; ++share) {
    threads.emplace_back(
        [&, share] { folded[share] = compact(test.plan, test.arena, offsets, INT64_MIN, {query, 9, 0}, {share, 4}); });
  }
  for (std::thread& thread : threads) thread.join();
  test.heads.clear();
  uint64_t groups = 0;
  for (uint32_t share = 0; share < 4; ++share) {
    const Head head = read_head(folded[share]);
    EXPECT_EQ(head.header.rows, share == 0 ? rows : 0);
    for (const SegmentEntry& entry : head.segments) EXPECT_EQ(entry.prefix_lo >> 30, share);
    groups += head.header.groups;
    test.heads.push_back(head);
  }
  EXPECT_EQ(test.merged(starts, 0, uint64_t{1} << 32, 777), expected);
  const Head whole = read_head(compact(test.plan, test.arena, offsets, INT64_MIN, {query, 9, 0}));
  EXPECT_EQ(groups, whole.header.groups);
  for (const PrefixShare share : {PrefixShare{0, 3}, PrefixShare{4, 4}, PrefixShare{0, 0}}) {
    expect_error(Status::invalid_input, "no share",
                 [&] { compact(test.plan, test.arena, offsets, INT64_MIN, {query, 9, 0}, share); });
  }
}

TEST(Merger, ABatchMayEndAnywhere) {
  std::mt19937_64 random(14);
  Case test(10, 5);
  test.add_block(random_rows(random, 300, -13, 40, 50), 0);
  const std::vector<int64_t> starts = test.windows();
  for (size_t max_rows = 1; max_rows < 70; max_rows += 6) {
    ASSERT_EQ(test.merged(starts, 0, uint64_t{1} << 32, max_rows), test.expected(starts)) << max_rows;
  }
}

TEST(Merger, EveryFlippedByteOfASegmentIsNoticed) {
  Case test(10, 10);
  test.add_block({{1, 1, 1}, {2, 2, 2}}, 0);
  const Head& head = test.heads[0];
  uint8_t* block = test.arena.data() + head.header.arena_offset;
  for (uint64_t byte = head.header.head_length; byte < head.header.length; ++byte) {
    block[byte] ^= 0x10;
    Merger merger(test.plan, std::vector<int64_t>{0});
    expect_error(Status::corrupt_block, "CRC", [&] { merger.add(head, 0, {block, head.header.length}); });
    block[byte] ^= 0x10;
  }
  Merger merger(test.plan, std::vector<int64_t>{0});
  merger.add(head, 0, {block, head.header.length});
  block[head.header.length - 1] ^= 1;  // after it was added
  expect_error(Status::corrupt_block, "", [&] { (void)merger.next(10); });
  expect_error(Status::invalid_input, "no more rows", [&] { (void)merger.next(10); });
}

TEST(Merger, WideRowsAreHandedOverBeforeTheyAreMany) {
  const auto plan =
      std::make_shared<const Plan>(Plan::parse("pyslash-plan 1\nwindow 10 10 0\ncolumn int64 0\ncolumn int64 0\nkey 1\n"
                                               "aggregate approx_count_distinct 2 0 14\n"));
  Arena arena = new_arena();
  std::vector<Row> rows;
  for (int64_t key = 0; key < 4000; ++key) rows.push_back({1, key, key});
  const Head head = *sealed(plan, arena, rows, 0);
  const std::vector<int64_t> starts{0};
  Merger merger(plan, starts);
  merger.add(head, 0, arena.view(head.header.arena_offset, head.header.length));
  size_t found = 0;
  while (const std::optional<RecordBatch> batch = merger.next(65536)) {
    EXPECT_LE(batch->columns[3].values.size(), size_t{32} << 20);
    found += batch->rows;
  }
  EXPECT_EQ(found, 4000U);
}

}  // namespace
}  // namespace pyslash
