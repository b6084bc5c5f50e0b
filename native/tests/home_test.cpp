#include "pyslash/home.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "expect_error.h"
#include "pyslash/compact.h"
#include "pyslash/merge.h"
#include "sums.h"

namespace pyslash {
namespace {

using namespace sums;

// A stream of epochs, and what each is to give by adding up its rows.
class Stream {
 public:
  Stream(int64_t size, int64_t slide) : plan(plan_of(size, slide)) {}

  // Rows that are late by `evicted_us` count for no window that was over by then.
  void add(const std::vector<Row>& rows, int64_t evicted_us) {
    ++epoch;
    if (std::optional<Head> head = sealed(plan, arena, rows, epoch, evicted_us)) heads.push_back(std::move(*head));
    evicted = evicted_us;
    changed.clear();
    std::erase_if(all, [&](const auto& group) { return group.first.first + plan->window().size_us() <= evicted; });
    for (const Row& row : rows) {
      for (const int64_t start : windows_of(plan->window(), row.time)) {
        if (start + plan->window().size_us() <= evicted) continue;
        auto& [count, sum] = all[{start, row.key}];
        ++count;
        sum += row.value;
        changed.insert({start, row.key});
      }
    }
  }

  Result expected(bool changed_only) const {
    if (!changed_only) return all;
    Result result;
    for (const auto& group : changed) result.emplace(group, all.at(group));
    return result;
  }

  HomeUpdate update() const { return {version(epoch - 1), version(epoch), epoch, evicted}; }
  static std::string version(int64_t epoch) { return epoch == 0 ? "" : std::to_string(epoch); }

  std::vector<MappedBlock> blocks() const {
    std::vector<MappedBlock> blocks;
    for (const Head& head : heads) blocks.push_back({&head, arena.view(head.header.arena_offset, head.header.length)});
    return blocks;
  }

  // The same rows out of the blocks alone.
  Result merged(bool changed_only) const {
    std::set<int64_t> starts;
    for (const auto& [group, value] : expected(changed_only)) starts.insert(group.first);
    if (starts.empty()) return {};
    const std::vector<int64_t> windows(starts.begin(), starts.end());
    Merger merger(plan, windows, 0, every_prefix, changed_only ? std::optional(epoch) : std::nullopt);
    for (const MappedBlock& block : blocks()) merger.add(*block.head, 0, block.bytes);
    return collected(*plan, 1000, [&](size_t rows) { return merger.next(rows); });
  }

  std::shared_ptr<const Plan> plan;
  Arena arena = new_arena();
  std::vector<Head> heads;
  Result all;
  std::set<std::pair<int64_t, int64_t>> changed;
  int64_t epoch = 0;
  int64_t evicted = INT64_MIN / 2;
};

Result rows_of(Home& home, bool changed_only, size_t max_rows = 700) {
  Home::Cursor cursor{.changed_only = changed_only};
  return collected(home.plan(), max_rows, [&](size_t rows) { return home.next(cursor, rows); });
}

TEST(Home, GivesWhatEachEpochHasChangedAndAllThatThereIs) {
  std::mt19937_64 random(3);
  for (const auto& [size, slide] : {std::pair{10, 10}, {10, 5}, {12, 8}, {7, 2}}) {
    Stream stream(size, slide);
    Home home(stream.plan, 0, every_prefix);
    for (int64_t epoch = 0; epoch < 12; ++epoch) {
      stream.add(random_rows(random, epoch % 4 == 3 ? 0 : 60, 5 * epoch - 20, 40, 15), 5 * epoch - 25);
      home.advance(stream.update(), stream.blocks());
      for (const bool changed_only : {true, false}) {
        ASSERT_EQ(rows_of(home, changed_only), stream.expected(changed_only)) << size << "/" << slide;
        ASSERT_EQ(rows_of(home, changed_only, 7), stream.expected(changed_only)) << "a second reader, other batches";
        ASSERT_EQ(stream.merged(changed_only), stream.expected(changed_only)) << "merged from blocks";
      }
    }
  }
}

TEST(Home, ThatHasMissedAnEpochReadsAllBlocks) {
  std::mt19937_64 random(5);
  Stream stream(10, 10);
  Home home(stream.plan, 0, every_prefix);
  uint64_t at_first = 0;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    stream.add(random_rows(random, 50, 0, 30, 20), INT64_MIN / 2);
    if (epoch == 3) continue;
    const uint64_t bytes = home.advance(stream.update(), stream.blocks());
    if (epoch == 0) at_first = bytes;
    EXPECT_EQ(bytes > 2 * at_first, epoch == 4) << epoch;
    ASSERT_EQ(rows_of(home, true), stream.expected(true));
    ASSERT_EQ(rows_of(home, false), stream.expected(false));
  }
  EXPECT_EQ(home.advance(stream.update(), {}), 0U);  // it is there already
  Home other(stream.plan, 0, every_prefix);
  other.advance(stream.update(), stream.blocks());
  EXPECT_EQ(rows_of(other, true), stream.expected(true));
}

TEST(Home, HomesOfPrefixRangesShareTheGroups) {
  std::mt19937_64 random(7);
  Stream stream(1000, 1000);
  std::vector<Home> homes;
  for (uint64_t i = 0; i < 3; ++i) homes.emplace_back(stream.plan, every_prefix * i / 3, every_prefix * (i + 1) / 3);
  // So many groups that tables are cut, and segments narrower than a home.
  for (const size_t rows : {120'000UL, 3000UL, 60'000UL}) {
    stream.add(random_rows(random, rows, 0, 1000, 100'000), INT64_MIN / 2);
    Result changed, all;
    uint64_t groups = 0;
    for (Home& home : homes) {
      home.advance(stream.update(), stream.blocks());
      changed.merge(rows_of(home, true, 8192));
      all.merge(rows_of(home, false, 8192));
      groups += home.groups();
    }
    EXPECT_EQ(changed, stream.expected(true));
    EXPECT_EQ(all, stream.expected(false));
    EXPECT_EQ(groups, stream.all.size());
  }
}

TEST(Home, ABadBlockLeavesItEmpty) {
  std::mt19937_64 random(9);
  Stream stream(10, 10);
  Home home(stream.plan, 0, every_prefix);
  stream.add(random_rows(random, 50, 0, 30, 20), INT64_MIN / 2);
  home.advance(stream.update(), stream.blocks());
  stream.add(random_rows(random, 50, 0, 30, 20), INT64_MIN / 2);
  std::vector<MappedBlock> blocks = stream.blocks();
  std::vector<uint8_t> broken(blocks.back().bytes.begin(), blocks.back().bytes.end());
  broken.back() ^= 1;
  broken[blocks.back().head->segments[0].offset] ^= 1;
  blocks.back().bytes = broken;
  expect_error(Status::corrupt_block, "CRC", [&] { home.advance(stream.update(), blocks); });
  EXPECT_EQ(home.groups(), 0U);
  home.advance(stream.update(), stream.blocks());
  EXPECT_EQ(rows_of(home, true), stream.expected(true));
  EXPECT_EQ(rows_of(home, false), stream.expected(false));
}

// A stream that is deduplicated by key within panes: of each new key the rows of its first epoch, and the first one's
// value.
class Duplicates {
 public:
  explicit Duplicates(int64_t size)
      : plan(std::make_shared<const Plan>(Plan::parse(
            "pyslash-plan 1\nwindow " + std::to_string(size) + " " + std::to_string(size) +
            " 0\ndeduplicate\ncolumn int64 0\ncolumn int64 0\nkey 1\naggregate count - 0\naggregate first 2 0\n"))) {}

  // An epoch in two tasks. Rows at or before `watermark` are late.
  void add(const std::vector<Row>& first, const std::vector<Row>& second, int64_t watermark) {
    ++epoch;
    evicted = watermark;
    expected.clear();
    std::erase_if(seen, [&](const auto& group) { return group.first + plan->window().size_us() <= evicted; });
    int64_t task = 0;
    for (const std::vector<Row>& rows : {first, second}) {
      const Position position{epoch, task++ << 40};
      std::optional<Head> head = sealed(plan, arena, rows, epoch, watermark, position);
      // The order in which blocks are read must not matter.
      if (head) heads.insert(epoch % 2 == 0 ? heads.begin() : heads.end(), std::move(*head));
      for (const Row& row : rows) {
        const std::pair group{plan->window().pane_of(row.time), row.key};
        if (row.time <= watermark || seen.contains(group)) continue;
        auto& [count, value] = expected.try_emplace(group, 0, row.value).first->second;
        ++count;
      }
    }
    for (const auto& [group, value] : expected) seen.insert(group);
  }

  // All blocks but those of the newest epoch into one.
  void compact_earlier() {
    std::vector<uint64_t> offsets;
    std::vector<Head> kept;
    for (Head& head : heads) {
      if (head.header.epoch == epoch) {
        kept.push_back(std::move(head));
      } else {
        offsets.push_back(head.header.arena_offset);
      }
    }
    heads = std::move(kept);
    const auto raw = compact(plan, arena, offsets, evicted - plan->window().size_us() + 1, {query, INT64_MAX, 0});
    if (!raw.empty()) heads.push_back(read_head(raw));
  }

  HomeUpdate update() const { return {Stream::version(epoch - 1), Stream::version(epoch), epoch, evicted}; }
  std::vector<MappedBlock> blocks() const {
    std::vector<MappedBlock> blocks;
    for (const Head& head : heads) blocks.push_back({&head, arena.view(head.header.arena_offset, head.header.length)});
    return blocks;
  }

  Result merged() const {
    std::set<int64_t> starts;
    for (const Head& head : heads) {
      for (const SegmentEntry& entry : head.segments) {
        if (head.header.epoch == epoch) starts.insert(entry.pane);
      }
    }
    const std::vector<int64_t> windows(starts.begin(), starts.end());
    if (windows.empty()) return {};
    Merger merger(plan, windows, 0, every_prefix, epoch);
    for (const MappedBlock& block : blocks()) merger.add(*block.head, 0, block.bytes);
    return collected(*plan, 1000, [&](size_t rows) { return merger.next(rows); });
  }

  std::shared_ptr<const Plan> plan;
  Arena arena = new_arena();
  std::vector<Head> heads;
  std::set<std::pair<int64_t, int64_t>> seen;
  Result expected;
  int64_t epoch = 0;
  int64_t evicted = INT64_MIN / 2;
};

TEST(Home, OfADeduplicationGivesTheFirstRowsOfKeysThatAreNew) {
  std::mt19937_64 random(11);
  for (const int64_t size : {10, 1000}) {
    Duplicates stream(size);
    Home home(stream.plan, 0, every_prefix);
    uint64_t given = 0;
    for (int64_t epoch = 0; epoch < 14; ++epoch) {
      const auto rows = [&] { return random_rows(random, epoch % 5 == 4 ? 0 : 70, 5 * epoch - 15, 30, 60); };
      stream.add(rows(), rows(), 5 * epoch - 20);
      if (epoch % 3 == 2) stream.compact_earlier();
      home.advance(stream.update(), stream.blocks());
      ASSERT_EQ(rows_of(home, true), stream.expected) << size << " in epoch " << epoch;
      ASSERT_EQ(rows_of(home, true, 7), stream.expected) << "a second reader, other batches";
      ASSERT_EQ(stream.merged(), stream.expected) << "merged from blocks";
      Home other(stream.plan, 0, every_prefix);
      other.advance(stream.update(), stream.blocks());
      ASSERT_EQ(rows_of(other, true), stream.expected) << "from all blocks";
      ASSERT_EQ(other.groups(), home.groups());
      given += stream.expected.size();
    }
    EXPECT_GT(given, 60U);
  }
}

TEST(Home, OfADeduplicationSplitsItsTables) {
  std::mt19937_64 random(13);
  Duplicates stream(1000);
  Home low(stream.plan, 0, every_prefix / 2), high(stream.plan, every_prefix / 2, every_prefix);
  for (const size_t rows : {90'000UL, 2000UL, 90'000UL}) {
    stream.add(random_rows(random, rows, 0, 1000, 150'000), random_rows(random, rows, 0, 1000, 150'000), -1);
    low.advance(stream.update(), stream.blocks());
    high.advance(stream.update(), stream.blocks());
    Result result = rows_of(low, true, 8192);
    result.merge(rows_of(high, true, 8192));
    EXPECT_EQ(result, stream.expected);
    EXPECT_EQ(stream.merged(), stream.expected);
    EXPECT_EQ(low.groups() + high.groups(), stream.seen.size());
  }
}

}  // namespace
}  // namespace pyslash
