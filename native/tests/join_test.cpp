#include "pyslash/join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "expect_error.h"
#include "joins/join_table.h"
#include "pyslash/compact.h"
#include "pyslash/hash.h"
#include "pyslash/join_rows.h"
#include "sums.h"

namespace pyslash {
namespace {

using sums::every_prefix;
using sums::new_arena;

constexpr int64_t pane_us = 160;  // ten to a bucket

struct Row {
  int side;  // JoinSide
  int key;
  int value;
  int64_t expires;

  std::string key_bytes() const { return std::string(static_cast<size_t>(key) % 5, 'k') + std::to_string(key); }
};

// What one pair gives: values of both sides, -1 where there is no row.
using Result = std::multiset<std::pair<int, int>>;

bool joins(int left, int right) { return (left + right) % 3 != 0; }

std::shared_ptr<const Plan> join_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow " + std::to_string(pane_us) + " " + std::to_string(pane_us) +
                  " 0\njoin\ncolumn int8 0\ncolumn int64 0\ncolumn int64 0\ncolumn int64 0\ncolumn binary 0\n"
                  "column binary 0\nkey 5\nrows 0\n"));
}

// A column of strings, as Arrow has it.
struct Strings {
  std::vector<int32_t> offsets{0};
  std::string bytes;

  void add(const std::string& value) {
    bytes += value;
    offsets.push_back(static_cast<int32_t>(bytes.size()));
  }
};

Head sealed(const std::shared_ptr<const Plan>& plan, Arena& arena, const std::vector<Row>& rows, int64_t epoch,
            int64_t evicted) {
  std::vector<int64_t> times, expires, epochs(rows.size(), epoch), before(rows.size(), evicted);
  std::vector<int8_t> sides;
  Strings keys, values;
  for (const Row& row : rows) {
    times.push_back(std::clamp<int64_t>(row.expires, std::max<int64_t>(evicted + 1, -1'000), 1'000'000));
    expires.push_back(row.expires);
    sides.push_back(static_cast<int8_t>(row.side));
    keys.add(row.key_bytes());
    values.add(std::to_string(row.value));
  }
  std::vector<ColumnView> columns(join_columns);
  const void* data[] = {times.data(),  sides.data(),      expires.data(),     epochs.data(),
                        before.data(), keys.bytes.data(), values.bytes.data()};
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].type = plan->columns()[i].type;
    columns[i].values = static_cast<const uint8_t*>(data[i]);
  }
  columns[join_key].offsets = reinterpret_cast<const uint8_t*>(keys.offsets.data());
  columns[join_row].offsets = reinterpret_cast<const uint8_t*>(values.offsets.data());
  JoinRows written(plan);
  written.add_columns(columns, rows.size());
  EXPECT_EQ(written.rows(), static_cast<int64_t>(rows.size()));
  return read_head(written.seal(arena, {sums::query, epoch, 0}));
}

struct Type {
  std::string name;
  bool left_outer, right_outer, semi;
  bool right_first = false;

  JoinKind kind() const { return {left_outer, right_outer, left_outer || right_outer || semi}; }
};

const std::vector<Type> types{
    {"inner", false, false, false}, {"left", true, false, false},
    {"right", false, true, false},  {"full", true, true, false},
    {"semi", false, false, true},   {"semi, the right side first,", false, false, true, true}};

// As who writes the rows of an epoch has it.
std::vector<Row> passing(std::vector<Row> rows, int64_t watermark) {
  for (Row& row : rows) {
    if (row.side == right_side && row.expires <= watermark) row.expires = KeptRow::passing;
  }
  return rows;
}

// Spark's operator: rows of both sides in lists, those that expire dropped at an epoch's end.
class Model {
 public:
  explicit Model(Type type) : type_(std::move(type)) {}

  Result epoch(const std::vector<Row>& rows, int64_t watermark) {
    Result result;
    for (const Row& row : rows) {
      if (row.side == left_alone) result.emplace(row.value, -1);
      if (row.side == right_alone) result.emplace(-1, row.value);
    }
    if (type_.right_first) {
      take(rows, right_side, result);
      std::erase_if(kept_[right_side], [&](const Kept& kept) { return kept.is_new && kept.row.expires <= watermark; });
      take(rows, left_side, result);
    } else {
      take(rows, left_side, result);
      take(rows, right_side, result);
    }
    for (auto& of_side : kept_) {
      for (Kept& kept : of_side) kept.is_new = false;
    }
    for (const int side : {left_side, right_side}) {
      std::erase_if(kept_[side], [&](const Kept& kept) {
        if (kept.row.expires > watermark) return false;
        if (!kept.matched && side == left_side && type_.left_outer) result.emplace(kept.row.value, -1);
        if (!kept.matched && side == right_side && type_.right_outer) result.emplace(-1, kept.row.value);
        return true;
      });
    }
    return result;
  }

 private:
  struct Kept {
    Row row;
    bool matched = false;
    bool is_new = true;
  };

  void take(const std::vector<Row>& rows, int side, Result& result) {
    for (const Row& row : rows) {
      if (row.side != side) continue;
      Kept kept{row};
      for (Kept& other : kept_[1 - side]) {
        if (side == left_side) {
          pair(kept, other, result);
        } else {
          pair(other, kept, result);
        }
      }
      kept_[side].push_back(kept);
    }
  }

  void pair(Kept& left, Kept& right, Result& result) const {
    if (left.row.key != right.row.key || !joins(left.row.value, right.row.value)) return;
    if (type_.semi) {
      if (!left.matched) result.emplace(left.row.value, -1);
    } else {
      result.emplace(left.row.value, right.row.value);
    }
    left.matched = right.matched = true;
  }

  Type type_;
  std::vector<Kept> kept_[2];
};

KeptRow& kept(const uint8_t* row) { return reinterpret_cast<KeptRow*>(const_cast<uint8_t*>(row))[-1]; }

int value_of(const uint8_t* row) {
  return row == nullptr ? -1 : std::stoi(std::string(reinterpret_cast<const char*>(row), kept(row).row_bytes));
}

// As the JVM reads a join: it says which pairs join, and gives their rows.
Result read(JoinHome& home, const Type& type, int64_t epoch, size_t most) {
  Result result;
  std::set<const uint8_t*> given;
  JoinHome::Cursor cursor;
  std::vector<RowPair> pairs;
  const auto match = [](const uint8_t* row, int64_t in) { kept(row).matched = std::min(kept(row).matched, in); };
  for (JoinPhase phase; (phase = home.next(cursor, most, pairs)) != JoinPhase::done;) {
    EXPECT_LE(pairs.size(), most);
    for (const RowPair& pair : pairs) {
      const int left = value_of(pair.left), right = value_of(pair.right);
      if (phase == JoinPhase::remembered) {
        if (!joins(left, right)) continue;
        match(pair.left, -1);
        match(pair.right, -1);
      } else if (phase > JoinPhase::right_new) {
        result.emplace(left, right);
      } else if (joins(left, right)) {
        if (!type.semi) result.emplace(left, right);
        const bool is_new = kept(pair.left).matched >= epoch && given.insert(pair.left).second;
        if (type.semi && is_new) result.emplace(left, -1);
        match(pair.left, epoch);
        match(pair.right, epoch);
      }
    }
  }
  return result;
}

// Epochs of random rows: the blocks of each, and a watermark that moves.
struct Epochs {
  Epochs() : plan(join_plan()), arena(new_arena()) {}

  void add(std::vector<Row> rows, int64_t closing) {
    ++epoch;
    evicted = watermark;
    watermark = closing;
    if (!rows.empty()) heads.push_back(sealed(plan, arena, rows, epoch, evicted));
  }

  // Blocks of earlier epochs become one.
  void compact_old() {
    std::vector<uint64_t> offsets;
    for (const Head& head : heads) {
      if (head.header.epoch != epoch) offsets.push_back(head.header.arena_offset);
    }
    if (offsets.size() < 2) return;
    const auto raw = compact(plan, arena, offsets, INT64_MIN, {sums::query, INT64_MAX, 0});
    std::erase_if(heads, [&](const Head& head) { return head.header.epoch != epoch; });
    heads.insert(heads.begin(), read_head(raw));
  }

  HomeUpdate update() const { return {version(epoch - 1), version(epoch), epoch, evicted, 0, watermark}; }
  static std::string version(int64_t epoch) { return epoch == 0 ? "" : std::to_string(epoch); }
  std::vector<MappedBlock> blocks() const {
    std::vector<MappedBlock> blocks;
    for (const Head& head : heads) blocks.push_back({&head, arena.view(head.header.arena_offset, head.header.length)});
    return blocks;
  }

  std::shared_ptr<const Plan> plan;
  Arena arena;
  std::vector<Head> heads;
  int64_t epoch = 0, evicted = INT64_MIN, watermark = INT64_MIN;
};

std::vector<Row> random_rows(std::mt19937_64& random, int64_t watermark, size_t most) {
  std::vector<Row> rows(random() % (most + 1));
  for (Row& row : rows) {
    const int side = static_cast<int>(random() % 40);
    const int64_t expires = watermark - 100 + static_cast<int64_t>(random() % 700);
    row = {side < 2 ? left_alone + side : side % 2, static_cast<int>(random() % 30), static_cast<int>(random() % 1000),
           random() % 20 == 0 ? INT64_MAX : expires};
  }
  return rows;
}

TEST(JoinHome, GivesWhatAListOfRowsWouldThroughLossesAndCompactions) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    const Type& type = types[static_cast<size_t>(round) % types.size()];
    SCOPED_TRACE(type.name + " join, round " + std::to_string(round));
    Epochs epochs;
    Model model(type);
    const uint64_t cut = random() % 2 == 0 ? every_prefix / 2 : every_prefix / 3;
    std::vector<JoinHome> homes;
    const auto make = [&](size_t i) {
      return JoinHome(epochs.plan, i == 0 ? 0 : cut, i == 0 ? cut : every_prefix, type.kind(), {});
    };
    homes.push_back(make(0));
    homes.push_back(make(1));
    int64_t watermark = 0;
    for (int epoch = 0; epoch < 12; ++epoch) {
      const std::vector<Row> rows = random_rows(random, watermark, random() % 3 == 0 ? 0 : 120);
      watermark += static_cast<int64_t>(random() % 3 == 0 ? 0 : random() % 300);
      epochs.add(type.right_first ? passing(rows, watermark) : rows, watermark);
      if (random() % 4 == 0) epochs.compact_old();
      const Result expected = model.epoch(rows, watermark);
      const size_t most = 1 + random() % 50;
      Result found;
      bool is_whole = true;
      for (size_t i = 0; i < homes.size(); ++i) {
        if (random() % 5 == 0) homes[i] = make(i);
        if (random() % 7 == 0) {  // a reader that stops in the middle, before the one that counts
          homes[i].advance(epochs.update(), epochs.blocks());
          JoinHome::Cursor cursor;
          std::vector<RowPair> pairs;
          homes[i].next(cursor, most, pairs);
          if (random() % 2 == 0) {  // and nobody reads this epoch
            is_whole = false;
            continue;
          }
        }
        homes[i].advance(epochs.update(), epochs.blocks());
        const Result once = read(homes[i], type, epochs.epoch, most);
        EXPECT_EQ(read(homes[i], type, epochs.epoch, 1000), once) << "read again";
        EXPECT_EQ(homes[i].advance(epochs.update(), epochs.blocks()), 0U);
        found.insert(once.begin(), once.end());
      }
      if (is_whole) {
        ASSERT_EQ(found, expected) << "epoch " << epoch;
      } else {
        ASSERT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end())) << "epoch " << epoch;
      }
    }
  }
}

TEST(JoinHome, AnEpochThatEvictsReadsNothingButItsOwnBlocks) {
  std::mt19937_64 random(6);
  Epochs epochs;
  JoinHome home(epochs.plan, 0, every_prefix, types[0].kind(), {});
  for (int epoch = 0; epoch < 20; ++epoch) {
    std::vector<Row> rows = random_rows(random, epoch * 100, 2000);
    std::erase_if(rows, [](const Row& row) { return row.side > right_side; });
    epochs.add(rows, epoch * 100);
    const uint64_t read_bytes = home.advance(epochs.update(), epochs.blocks());
    uint64_t of_epoch = 0;
    for (const SegmentEntry& entry : epochs.heads.back().segments) of_epoch += entry.length;
    EXPECT_EQ(read_bytes, epochs.heads.back().header.epoch == epochs.epoch ? of_epoch : 0);
  }
  EXPECT_LT(home.rows(), 20'000U);
  epochs.add({}, 1'000'000);
  home.advance(epochs.update(), epochs.blocks());
  epochs.add({}, 1'000'000);
  home.advance(epochs.update(), epochs.blocks());
  uint64_t for_ever = 0;
  for (const Head& head : epochs.heads) {
    for (const SegmentEntry& entry : head.segments) for_ever += entry.pane >= 1'000'000 - pane_us ? entry.rows : 0;
  }
  EXPECT_EQ(home.rows(), for_ever);
}

TEST(JoinRows, BlocksAreByPaneAndByPrefixesOfKeys) {
  Epochs epochs;
  std::vector<Row> rows;
  for (int i = 0; i < 30'000; ++i) rows.push_back({i % 2, i, i, i < 20'000 ? 5 : 200});
  epochs.add(rows, 0);
  const Head& head = epochs.heads[0];
  EXPECT_EQ(head.header.rows, 30'000U);
  std::map<int64_t, uint64_t> of_panes;
  for (const SegmentEntry& entry : head.segments) {
    of_panes[entry.pane] += entry.rows;
    EXPECT_LT(entry.rows, 10'000U);
  }
  EXPECT_EQ(of_panes, (std::map<int64_t, uint64_t>{{0, 20'000}, {160, 10'000}}));
}

TEST(JoinHome, RefusesWhatIsNoJoin) {
  Epochs epochs;
  expect_error(Status::invalid_plan, "no join",
               [] { JoinHome(sums::plan_of(10, 10), 0, every_prefix, types[0].kind(), {}); });
  expect_error(Status::invalid_plan, "columns of a join",
               [] { Plan::parse("pyslash-plan 1\nwindow 1 1 0\njoin\ncolumn int64 0\nkey 1\nrows 0\n"); });
  epochs.add({{left_side, 1, 1, 10}}, 0);
  std::vector<uint8_t> damaged(epochs.blocks()[0].bytes.begin(), epochs.blocks()[0].bytes.end());
  damaged[epochs.heads[0].segments[0].offset] ^= 1;
  const std::vector<MappedBlock> blocks{{&epochs.heads[0], damaged}};
  JoinHome home(epochs.plan, 0, every_prefix, types[0].kind(), {});
  expect_error(Status::corrupt_block, "CRC32C", [&] { home.advance(epochs.update(), blocks); });
  EXPECT_EQ(home.rows(), 0U);
}

TEST(JoinTable, RowsThatExpireFarApartTakeLittle) {
  JoinTable table(10);
  const std::vector<uint8_t> bytes(100);
  for (int64_t i = 0; i < 1000; ++i) {
    KeptRow row{};
    row.hash = mix64(static_cast<uint64_t>(i));
    row.expires = 100 * i;
    row.matched = KeptRow::never;
    table.insert(row, {reinterpret_cast<const uint8_t*>(&i), sizeof i}, {bytes.data(), bytes.size()});
  }
  EXPECT_EQ(table.rows(), 1000U);
  EXPECT_LT(table.memory(), 512'000U);
}

}  // namespace
}  // namespace pyslash
