#include "pyslash/home.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "expect_error.h"
#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/bytes.h"
#include "pyslash/merge.h"
#include "pyslash/seal.h"

namespace pyslash {
namespace {

constexpr Id128 query{1};
constexpr uint64_t every_prefix = uint64_t{1} << 32;

struct Row {
  int64_t time;
  int64_t key;
  int64_t value;
};

// {window start, key} -> {rows, sum}
using Result = std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>>;

template <typename Next>
Result collected(Next&& next) {
  Result result;
  while (const std::optional<RecordBatch> batch = next()) {
    const auto value = [&](size_t column, size_t row) {
      return load<int64_t>(batch->columns[column].values.data(), row);
    };
    for (size_t row = 0; row < batch->rows; ++row) {
      const bool first =
          result.emplace(std::pair{value(0, row), value(2, row)}, std::pair{value(3, row), value(4, row)}).second;
      EXPECT_TRUE(first);
    }
  }
  return result;
}

// A stream of epochs, and what each is to give by adding up its rows.
class Stream {
 public:
  Stream(int64_t size, int64_t slide)
      : plan(std::make_shared<const Plan>(
            Plan::parse("pyslash-plan 1\nwindow " + std::to_string(size) + " " + std::to_string(slide) +
                        " 0\ncolumn int64 0\ncolumn int64 0\nkey 1\naggregate count - 0\naggregate sum 2 1\n"))) {
    const int fd = ::memfd_create("home-test", MFD_CLOEXEC);
    arena.emplace(Arena::create(fd, Arena::data_offset + (64 << 20), Id128{9}));
    ::close(fd);
  }

  // Rows that are late by `evicted_us` count for no window that was over by then.
  void add(const std::vector<Row>& rows, int64_t evicted_us) {
    ++epoch;
    std::vector<int64_t> times, keys, values;
    for (const Row& row : rows) {
      times.push_back(row.time);
      keys.push_back(row.key);
      values.push_back(row.value);
    }
    std::vector<ColumnView> columns(3);
    const std::vector<int64_t>* data[] = {&times, &keys, &values};
    for (size_t i = 0; i < 3; ++i) {
      columns[i].type = plan->columns()[i].type;
      columns[i].values = reinterpret_cast<const uint8_t*>(data[i]->data());
    }
    Accumulator accumulator(plan, evicted_us);
    accumulator.add_columns(columns, rows.size());
    if (accumulator.groups() != 0) heads.push_back(read_head(seal(accumulator, *arena, {query, epoch, 0})));
    evicted = evicted_us;
    changed.clear();
    std::erase_if(all, [&](const auto& group) { return group.first.first + plan->window().size_us() <= evicted; });
    for (const Row& row : rows) {
      const Window& window = plan->window();
      const int64_t pane = window.pane_of(row.time);
      for (int64_t start = window.first_window_of(pane); start <= window.last_window_of(pane);
           start += window.slide_us()) {
        if (start + window.size_us() <= evicted) continue;
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
    for (const Head& head : heads) blocks.push_back({&head, arena->view(head.header.arena_offset, head.header.length)});
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
    return collected([&] { return merger.next(1000); });
  }

  std::shared_ptr<const Plan> plan;
  std::optional<Arena> arena;
  std::vector<Head> heads;
  Result all;
  std::set<std::pair<int64_t, int64_t>> changed;
  int64_t epoch = 0;
  int64_t evicted = INT64_MIN / 2;
};

Result rows_of(Home& home, bool changed_only, size_t max_rows = 700) {
  Home::Cursor cursor{.changed_only = changed_only};
  return collected([&] { return home.next(cursor, max_rows); });
}

std::vector<Row> random_rows(std::mt19937_64& random, size_t rows, int64_t from, int64_t times, int64_t keys) {
  std::vector<Row> out(rows);
  for (Row& row : out) {
    row = {from + static_cast<int64_t>(random() % static_cast<uint64_t>(times)),
           static_cast<int64_t>(random() % static_cast<uint64_t>(keys)), static_cast<int64_t>(random() % 1000) - 500};
  }
  return out;
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

}  // namespace
}  // namespace pyslash
