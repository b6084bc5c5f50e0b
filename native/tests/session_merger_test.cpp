#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "expect_error.h"
#include "pyslash/compact.h"
#include "pyslash/home.h"
#include "pyslash/session_merge.h"
#include "sums.h"

namespace pyslash {
namespace {

using sums::every_prefix;
using sums::new_arena;

constexpr int64_t never = INT64_MIN;

struct Row {
  int64_t time;
  int64_t gap;
  int64_t key;
  int64_t value;
};

// {key, start, end, rows, sum}
using Session = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;

// Sessions as Spark keeps them: those in its store and an epoch's rows, sorted by their starts and merged.
class Model {
 public:
  // Rows that end by `late` are dropped; of what there is then, what ends by `closing` is emitted and forgotten.
  std::vector<Session> epoch(const std::vector<Row>& rows, int64_t late, int64_t closing) {
    for (const Row& row : rows) {
      if (row.time + row.gap > late) open_.emplace_back(row.key, row.time, row.time + row.gap, 1, row.value);
    }
    std::ranges::sort(open_);
    std::vector<Session> merged;
    for (const auto& [key, start, end, count, sum] : open_) {
      if (!merged.empty() && std::get<0>(merged.back()) == key && start <= std::get<2>(merged.back())) {
        std::get<2>(merged.back()) = std::max(std::get<2>(merged.back()), end);
        std::get<3>(merged.back()) += count;
        std::get<4>(merged.back()) += sum;
      } else {
        merged.emplace_back(key, start, end, count, sum);
      }
    }
    std::vector<Session> emitted;
    open_.clear();
    for (const Session& one : merged) (std::get<2>(one) <= closing ? emitted : open_).push_back(one);
    return emitted;
  }
  const std::vector<Session>& open() const { return open_; }

 private:
  std::vector<Session> open_;
};

std::string text_of(int64_t gap) {
  return "pyslash-plan 1\nwindow 1 1 0\nsession " + std::to_string(gap) +
         " 0\ncolumn timestamp 1\ncolumn int64 0\ncolumn int64 0\nkey 2\naggregate count - 0\naggregate sum 3 1\n";
}

std::shared_ptr<const Plan> plan_of(int64_t gap) { return std::make_shared<const Plan>(Plan::parse(text_of(gap))); }

void add_rows(Accumulator& accumulator, const std::vector<Row>& rows) {
  std::vector<int64_t> data[4];
  for (const Row& row : rows) {
    data[0].push_back(row.time);
    data[1].push_back(row.time + row.gap);
    data[2].push_back(row.key);
    data[3].push_back(row.value);
  }
  std::vector<ColumnView> columns(4);
  for (size_t i = 0; i < 4; ++i) {
    columns[i].type = accumulator.plan().columns()[i].type;
    columns[i].values = reinterpret_cast<const uint8_t*>(data[i].data());
  }
  accumulator.add_columns(columns, rows.size());
}

template <typename Next>
std::vector<Session> collected(Next&& next) {
  std::vector<Session> found;
  while (const std::optional<RecordBatch> batch = next(5)) {
    const auto value = [&](size_t column, size_t row) {
      return load<int64_t>(batch->columns[column].values.data(), row);
    };
    for (size_t row = 0; row < batch->rows; ++row) {
      found.emplace_back(value(2, row), value(0, row), value(1, row), value(3, row), value(4, row));
    }
  }
  std::ranges::sort(found);
  return found;
}

// A query's blocks, in the arenas of two agents that compact theirs without knowing of the other's.
class Query {
 public:
  explicit Query(int64_t gap) : gap_(gap), plan(plan_of(gap)) {}

  std::shared_ptr<const Plan> placed() const {
    return std::make_shared<const Plan>(
        Plan::parse(text_of(gap_) + "place " + std::to_string(pane) + " " + std::to_string(evicted) + "\n"));
  }

  void update(size_t agent, const std::vector<Row>& rows, int64_t late) {
    Accumulator accumulator(placed(), late);
    // Two batches, so that sessions are found again.
    add_rows(accumulator, {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2)});
    add_rows(accumulator, {rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2), rows.end()});
    keep(agent, seal(accumulator, arenas[agent], {sums::query, epoch, 0}));
  }

  void compact_blocks(size_t agent, bool all) {
    std::vector<uint64_t> offsets;
    for (const Head& head : heads[agent]) {
      if (all || head.header.epoch != epoch) offsets.push_back(head.header.arena_offset);
    }
    if (offsets.size() < 2) return;
    const auto raw = compact(plan, arenas[agent], offsets, pane, {sums::query, INT64_MAX, 0});
    for (const uint64_t offset : offsets) {
      arenas[agent].free(offset);
      std::erase_if(heads[agent], [&](const Head& head) { return head.header.arena_offset == offset; });
    }
    if (!raw.empty()) keep(agent, raw);
  }

  std::vector<MappedBlock> blocks() const {
    std::vector<MappedBlock> found;
    for (size_t agent = 0; agent < 2; ++agent) {
      for (const Head& head : heads[agent]) {
        found.push_back({&head, arenas[agent].view(head.header.arena_offset, head.header.length)});
      }
    }
    return found;
  }

  SessionMerger merger(int64_t closing, uint64_t lo = 0, uint64_t hi = every_prefix) const {
    SessionMerger merger(placed(), {pane, evicted, closing, lo, hi});
    for (const MappedBlock& block : blocks()) merger.add(*block.head, 0, block.bytes);
    return merger;
  }

  // Open sessions into a new pane, by two tasks; the old blocks are of no use then.
  void rewrite(int64_t to) {
    const auto before = blocks();
    std::vector<SessionMerger> mergers;
    const int64_t from = std::exchange(pane, to);
    for (uint64_t i = 0; i < 2; ++i) {
      const SessionRange range{from, evicted, INT64_MAX, every_prefix * i / 2, every_prefix * (i + 1) / 2};
      mergers.emplace_back(placed(), range);
      for (const MappedBlock& block : before) mergers.back().add(*block.head, 0, block.bytes);
    }
    for (size_t i = 0; i < 2; ++i) keep(i, mergers[i].seal(arenas[i], {sums::query, epoch, 0}));
  }

  // The sessions of another query, of older rows, as parts that come with this epoch.
  void take(const Query& older) {
    SessionMerger merger(placed(), {older.pane, evicted, INT64_MAX, 0, every_prefix});
    for (const MappedBlock& block : older.blocks()) merger.add(*block.head, 0, block.bytes);
    keep(1, merger.seal(arenas[1], {sums::query, epoch, 0}));
  }

  void release() {
    for (size_t agent = 0; agent < 2; ++agent) {
      std::erase_if(heads[agent], [&](const Head& head) {
        const bool dead = head.segments[0].pane < pane;
        if (dead) arenas[agent].free(head.header.arena_offset);
        return dead;
      });
    }
  }

  int64_t gap_;
  std::shared_ptr<const Plan> plan;
  Arena arenas[2] = {new_arena(), new_arena()};
  std::vector<Head> heads[2];
  int64_t epoch = 0;
  int64_t pane = 0;
  int64_t evicted = never;

 private:
  void keep(size_t agent, const std::vector<uint8_t>& raw) {
    Head head = read_head(raw);
    if (head.header.length > 0) heads[agent].push_back(std::move(head));
  }
};

std::vector<Session> rows_of(Home& home) {
  Home::Cursor cursor;
  return collected([&](size_t rows) { return home.next(cursor, rows); });
}

struct Shape {
  int64_t gap;  // 0: each row has its own
  int64_t times;
  int64_t keys;
  size_t rows;
  bool evicts;
};

void run(uint64_t seed, const Shape& shape) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  Query query(shape.gap);
  Model model;
  Home homes[2] = {Home(query.plan, 0, every_prefix / 3), Home(query.plan, every_prefix / 3, every_prefix)};
  std::string before;
  int64_t front = 100;
  for (query.epoch = 1; query.epoch < 40; ++query.epoch) {
    const int64_t late = query.evicted;
    if (below(12) == 0) query.rewrite(query.epoch);
    std::vector<Row> rows;
    for (size_t agent = 0; agent < 2; ++agent) {
      std::vector<Row> of_agent;
      for (size_t i = 0; i < static_cast<size_t>(below(static_cast<int64_t>(shape.rows))); ++i) {
        const int64_t gap = shape.gap != 0 ? shape.gap : 1 + below(30);
        of_agent.push_back({front + below(shape.times) - shape.times / 2, gap, below(shape.keys), below(100)});
      }
      if (below(2) == 0) std::ranges::sort(of_agent, {}, &Row::time);
      query.update(agent, of_agent, late);
      rows.insert(rows.end(), of_agent.begin(), of_agent.end());
    }
    front += below(20);
    const int64_t closing = shape.evicts ? std::max(query.evicted, front - 15 + below(10)) : never;
    const std::vector<Session> expected = model.epoch(rows, late, closing);
    // A home can follow only while the epoch's blocks can be told from others.
    const bool swallowed = below(4) == 0;
    if (swallowed) query.compact_blocks(static_cast<size_t>(below(2)), true);
    const std::string version = std::to_string(query.epoch);
    std::vector<Session> at_home, merged;
    const bool is_away = below(6) == 0;
    uint64_t sessions = 0;
    for (size_t i = 0; i < 2; ++i) {
      const uint64_t third = every_prefix / 3;
      SessionMerger merger = i == 0 ? query.merger(closing, 0, third) : query.merger(closing, third);
      for (Session& one : collected([&](size_t rows) { return merger.next(rows); })) merged.push_back(one);
      if (is_away) continue;
      const bool anew = swallowed || query.pane == query.epoch;
      homes[i].advance({anew ? "" : before, version, query.epoch, query.evicted, query.pane, closing}, query.blocks());
      const std::vector<Session> found = rows_of(homes[i]);
      ASSERT_EQ(rows_of(homes[i]), found) << "a second reader";
      at_home.insert(at_home.end(), found.begin(), found.end());
      sessions += homes[i].groups();
    }
    std::ranges::sort(merged);
    ASSERT_EQ(merged, expected) << "seed " << seed << ", epoch " << query.epoch << ", merged from blocks";
    if (!is_away) {
      std::ranges::sort(at_home);
      ASSERT_EQ(at_home, expected) << "seed " << seed << ", epoch " << query.epoch << ", from homes";
      ASSERT_EQ(sessions, expected.size() + model.open().size());
    }
    before = is_away ? "away" : version;
    query.evicted = std::max(query.evicted, closing);
    SessionMerger all = query.merger(INT64_MAX);
    ASSERT_EQ(collected([&](size_t rows) { return all.next(rows); }), model.open()) << "seed " << seed;
    query.release();
    if (below(3) == 0) query.compact_blocks(static_cast<size_t>(below(2)), false);
  }
}

TEST(SessionMerger, GivesSparksSessionsWhateverWasCompactedAndRewritten) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const Shape& shape : {Shape{10, 40, 3, 12, true},
                               {10, 60, 2, 6, true},
                               {0, 60, 2, 8, true},
                               {5, 200, 40, 60, true},
                               {0, 30, 3, 12, false},
                               {25, 40, 1, 5, true},
                               {3, 3000, 2, 400, true}}) {
      run(seed, shape);
      if (HasFatalFailure()) return;
    }
  }
}

// Both parts came when sessions until 50 had been emitted, one of them with an end before that.
TEST(SessionMerger, APartThatHadEndedIsGoneBeforeALaterOneComes) {
  for (const bool earlier_first : {false, true}) {
    Query query(10);
    query.evicted = 50;
    query.epoch = 1;
    query.update(earlier_first ? 0 : 1, {{38, 10, 7, 1}, {36, 10, 7, 1}}, never);
    query.update(earlier_first ? 1 : 0, {{45, 10, 7, 2}, {46, 10, 7, 2}}, never);
    SessionMerger merger = query.merger(INT64_MAX);
    EXPECT_EQ(collected([&](size_t rows) { return merger.next(rows); }), (std::vector<Session>{{7, 45, 56, 2, 4}}));
  }
}

// One of three open sessions is joined with the next, and what touches one that was emitted begins another.
TEST(SessionMerger, WhatIsTakenFromAnotherQueryJoinsWhatIsOpenAndNothingThatWasEmitted) {
  for (const bool compacts : {false, true}) {
    Query query(10), older(10);
    query.update(0, {{40, 10, 7, 1}, {55, 10, 7, 2}, {70, 10, 7, 4}, {90, 10, 7, 8}}, never);
    older.update(0, {{30, 10, 7, 16}, {45, 10, 8, 32}, {62, 10, 7, 64}}, never);
    older.update(1, {{46, 10, 7, 128}}, never);
    query.evicted = 52;
    query.epoch = 1;
    query.take(older);
    if (compacts) query.compact_blocks(0, true);
    if (compacts) query.compact_blocks(1, true);
    SessionMerger merger = query.merger(INT64_MAX);
    EXPECT_EQ(collected([&](size_t rows) { return merger.next(rows); }),
              (std::vector<Session>{{7, 46, 80, 4, 198}, {7, 90, 100, 1, 8}, {8, 45, 55, 1, 32}}));
  }
}

TEST(SessionMerger, AKeyThatNeverPausesStaysOneSessionInMemory) {
  Query query(10);
  Model model;
  size_t longest = 0;
  for (query.epoch = 1; query.epoch < 3000; ++query.epoch) {
    const int64_t at = 5 * query.epoch;
    query.update(0, {{at, 10, 7, 1}, {at + 3, 10, 7, 1}}, query.evicted);
    model.epoch({{at, 10, 7, 1}, {at + 3, 10, 7, 1}}, query.evicted, at - 20);
    query.evicted = at - 20;
    if (query.epoch % 8 == 0) query.compact_blocks(0, true);
    size_t parts = 0;
    for (const Head& head : query.heads[0]) parts += head.header.groups;
    longest = std::max(longest, parts);
  }
  SessionMerger merger = query.merger(INT64_MAX);
  EXPECT_EQ(collected([&](size_t rows) { return merger.next(rows); }), model.open());
  EXPECT_EQ(model.open().size(), 1U);
  EXPECT_LE(longest, 8U);
}

TEST(SessionMerger, LateRowsOfATaskAreJudgedByItsSessions) {
  const std::string text =
      "pyslash-plan 1\nwindow 1 1 0\nsession 10 1\ncolumn timestamp 1\ncolumn int64 0\ncolumn int64 0\nkey "
      "2\naggregate "
      "count - 0\n";
  Accumulator accumulator(std::make_shared<const Plan>(Plan::parse(text)), 105);
  add_rows(accumulator, {{90, 10, 1, 0}, {98, 10, 1, 0}, {90, 10, 2, 0}, {95, 10, 2, 0}, {96, 10, 3, 0}});
  EXPECT_EQ(accumulator.late_rows(), 2);  // both of key 2
  EXPECT_EQ(accumulator.groups(), 2);
  EXPECT_EQ(accumulator.rows(), 5);
  EXPECT_EQ(accumulator.max_event_time(), 98);
}

// The list of a key begins with its latest session: rows in another order must not walk all of it each time.
TEST(SessionMerger, AKeyWithManySessionsTakesItsRowsInAnyOrder) {
  constexpr int64_t sessions = 100'000;
  std::vector<Row> rows;
  for (int64_t i = sessions; i-- > 0;) rows.push_back({20 * i, 10, 7, i});
  for (int64_t i = sessions; i-- > 0;) rows.push_back({20 * i + 5, 10, i % 2 == 0 ? 7 : 8, 1});
  for (const bool shuffled : {false, true}) {
    if (shuffled) std::shuffle(rows.begin(), rows.end(), std::mt19937_64(7));
    Query query(10);
    query.update(0, rows, never);
    std::vector<Session> expected = Model().epoch(rows, never, INT64_MAX);
    SessionMerger merger = query.merger(INT64_MAX);
    const std::vector<Session> found = collected([&](size_t most) { return merger.next(most); });
    std::ranges::sort(expected);
    EXPECT_EQ(found.size(), static_cast<size_t>(sessions + sessions / 2));
    EXPECT_EQ(found, expected);
  }
}

TEST(SessionMerger, PlansOfSessionsHaveRules) {
  const auto parse = [](const std::string& lines) { Plan::parse("pyslash-plan 1\nwindow 1 1 0\n" + lines); };
  const std::string rest = "column int64 0\nkey 1\naggregate count - 0\n";
  parse("session 5 0\n" + rest);
  expect_error(Status::invalid_plan, "ends", [&] { parse("session 0 0\n" + rest); });
  expect_error(Status::invalid_plan, "that long", [&] { parse("session -1 0\n" + rest); });
  expect_error(Status::invalid_plan, "key", [&] { parse("session 5 0\ncolumn int64 0\naggregate count - 0\n"); });
  expect_error(Status::invalid_plan, "only sessions", [&] { parse(rest + "place 1 2\n"); });
  expect_error(Status::invalid_plan, "is no number", [&] { parse("session 5 0\n" + rest + "place 1 x\n"); });
  const Plan plan = Plan::parse("pyslash-plan 1\nwindow 1 1 0\nsession 5 0\n" + rest + "place 3 -7\n");
  EXPECT_EQ(plan.text(), "pyslash-plan 1\nwindow 1 1 0\nsession 5 0\n" + rest);
  EXPECT_EQ(plan.place().pane, 3);
  EXPECT_EQ(plan.place().evicted_us, -7);
  expect_error(Status::invalid_plan, "none of sessions", [] { SessionMerger(sums::plan_of(10, 10), SessionRange{}); });
}

}  // namespace
}  // namespace pyslash
