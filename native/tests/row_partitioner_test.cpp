#include "pyslash/row_partitioner.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "expect_error.h"
#include "model.h"
#include "pyslash/arena.h"
#include "pyslash/compact.h"
#include "pyslash/hash.h"
#include "pyslash/merge.h"
#include "pyslash/update.h"
#include "query.h"
#include "sealed.h"
#include "table.h"

namespace pyslash {
namespace {

constexpr BlockIdentity identity{{7}, 3, 4};
constexpr uint64_t all = uint64_t{1} << 32;

Arena new_arena(uint64_t size = 64 << 20) {
  const int fd = ::memfd_create("partitioner-test", MFD_CLOEXEC);
  Arena arena = Arena::create(fd, Arena::data_offset + size, Id128{9});
  ::close(fd);
  return arena;
}

// The plan of rows that belongs to a query's plan.
std::shared_ptr<const Plan> plan_of_rows(const Plan& plan, uint64_t bits) {
  const std::string text = plan.text().substr(0, plan.text().find("aggregate "));
  return std::make_shared<const Plan>(Plan::parse(text + "rows " + std::to_string(bits) + "\n"));
}

Head partitioned(const Plan& plan, uint64_t bits, const Table& table, Arena& arena, bool from_rows) {
  RowPartitioner partitioner(plan_of_rows(plan, bits));
  const size_t half = table.size() / 2;
  const std::vector<Table> parts{{table.begin(), table.begin() + static_cast<std::ptrdiff_t>(half)},
                                 {table.begin() + static_cast<std::ptrdiff_t>(half), table.end()}};
  for (const Table& part : parts) {
    if (from_rows) {
      const std::vector<uint8_t> page = to_page(plan, part);
      partitioner.add_rows(page.data(), page.size(), part.size());
    } else {
      partitioner.add_columns(ArrowTable(plan, part, 5, true).columns(), part.size());
    }
  }
  EXPECT_EQ(partitioner.rows(), static_cast<int64_t>(table.size()));
  return read_head(partitioner.seal(arena, identity));
}

// What the owner of a range of prefixes reads of a block.
void add_range(Accumulator& owner, const Head& head, const Arena& arena, uint64_t lo, uint64_t hi) {
  for (const ByteRange& range : ranges(head, 0, 1, lo, hi)) {
    owner.add_block(head, range.offset, arena.view(head.header.arena_offset + range.offset, range.length));
  }
}

Table random_rows(RandomCells& random, const Query& query, size_t rows) {
  return random_table(random, *query.plan(), rows, -50, 100);
}

TEST(RowPartitioner, OwnersOfAnyRowsFindWhatTheModelFinds) {
  RandomCells random(41);
  for (int round = 0; round < 200; ++round) {
    const Query query = random_query(random);
    const auto plan = query.plan();
    const uint64_t bits = random.below(6);
    const Table first = random_rows(random, query, random.below(9000) / (1 + random.below(100)));
    const Table second = random_rows(random, query, random.below(300));
    Table table = first;
    table.insert(table.end(), second.begin(), second.end());
    const ModelResult expected = model(*plan, query.lines, table, -20);
    Arena arena = new_arena();
    const std::vector<Head> heads{partitioned(*plan, bits, first, arena, random.one_in(2)),
                                  partitioned(*plan, bits, second, arena, random.one_in(2))};
    const uint64_t owners = 1 + random.below(uint64_t{1} << bits);
    Groups found;
    int64_t rows = 0, late_rows = 0, latest = INT64_MIN;
    for (uint64_t owner = 0; owner < owners; ++owner) {
      Accumulator accumulator(plan, -20);
      const uint64_t first_bucket = (owner << bits) / owners;
      const uint64_t end_bucket = ((owner + 1) << bits) / owners;
      for (const Head& head : heads) {
        add_range(accumulator, head, arena, first_bucket << (32 - bits), end_bucket << (32 - bits));
      }
      rows += accumulator.rows();
      late_rows += accumulator.late_rows();
      latest = std::max(latest, accumulator.max_event_time());
      for (auto& [group, results] : read_groups(*plan, sealed(accumulator).block)) {
        EXPECT_TRUE(found.emplace(group, results).second) << "two owners have a group";
      }
    }
    SCOPED_TRACE(plan->text() + std::to_string(bits) + " bits, " + std::to_string(owners) + " owners");
    ASSERT_EQ(found, expected.groups);
    EXPECT_EQ(rows, static_cast<int64_t>(table.size()));
    EXPECT_EQ(late_rows, expected.late_rows);
    EXPECT_EQ(latest, expected.max_event_time);
  }
}

TEST(RowPartitioner, ARowIsInTheBucketOfItsKeyAndEqualRowsMakeEqualBytes) {
  RandomCells random(42);
  const Query query{{"int64", "string", "decimal(30,2)"}, {true, true, true}, {1}, {{"count", -1, false}}};
  const auto plan = query.plan();
  const Table table = random_rows(random, query, 20'000);
  Arena arena = new_arena();
  const Head head = partitioned(*plan, 4, table, arena, true);
  const Head again = partitioned(*plan, 4, table, arena, false);
  EXPECT_EQ(head.header.groups, 20'000u);
  EXPECT_EQ(head.header.rows, 20'000u);
  EXPECT_EQ(head.header.late_rows, 0u);
  ASSERT_EQ(head.segments.size(), again.segments.size());
  const KeyCodec codec(*plan);
  SegmentReader reader(*plan_of_rows(*plan, 4));
  EncodedKeys encoded;
  for (size_t i = 0; i < head.segments.size(); ++i) {
    const SegmentEntry& entry = head.segments[i];
    EXPECT_EQ(entry.crc, again.segments[i].crc);
    reader.open(entry, arena.view(head.header.arena_offset + entry.offset, entry.length));
    ASSERT_EQ(reader.keys().size(), 4u);
    codec.encode(reader.keys().subspan(1, 1), reader.rows(), encoded);
    for (const uint64_t hash : encoded.hashes) {
      EXPECT_GE(prefix_of(hash), entry.prefix_lo);
      EXPECT_LT(prefix_of(hash), entry.prefix_hi());
    }
  }
}

TEST(RowPartitioner, NoRowsMakeAReceiptWithoutABlock) {
  RandomCells random(43);
  const Query query{{"int64"}, {true}, {1}, {{"count", -1, false}}};
  Arena arena = new_arena();
  const Head head = partitioned(*query.plan(), 3, {}, arena, true);
  EXPECT_EQ(head.header.length, 0u);
  EXPECT_EQ(head.header.max_event_time, INT64_MIN);
  EXPECT_TRUE(arena.blocks().empty());
}

TEST(RowPartitioner, WithoutRoomNothingIsLeftAndASecondTrySucceeds) {
  RandomCells random(44);
  const Query query{{"int64"}, {false}, {1}, {{"count", -1, false}}};
  const auto plan = query.plan();
  const Table table = random_rows(random, query, 1000);
  const std::vector<uint8_t> page = to_page(*plan, table);
  RowPartitioner partitioner(plan_of_rows(*plan, 2));
  partitioner.add_rows(page.data(), page.size(), table.size());
  Arena small = new_arena(4096);
  expect_error(Status::arena_full, "arena", [&] { partitioner.seal(small, identity); });
  EXPECT_TRUE(small.blocks().empty());
  Arena large = new_arena();
  EXPECT_EQ(read_head(partitioner.seal(large, identity)).header.rows, 1000u);
}

TEST(RowPartitioner, ASingleFlippedBitIsFound) {
  RandomCells random(45);
  const Query query{{"int64", "string"}, {true, true}, {1}, {{"max", 2, false}}};
  const auto plan = query.plan();
  Arena arena = new_arena();
  const Head head = partitioned(*plan, 0, random_rows(random, query, 200), arena, true);
  const uint64_t first = head.segments[0].offset;
  const Bytes whole = arena.view(head.header.arena_offset, head.header.length);
  for (uint64_t byte = first; byte < head.header.length; byte += 13) {
    std::vector<uint8_t> damaged(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end());
    damaged[byte - first] ^= static_cast<uint8_t>(1U << random.below(8));
    Accumulator owner(plan, -1000);
    expect_error(Status::corrupt_block, "CRC32C", [&] { owner.add_block(head, first, damaged); });
    EXPECT_EQ(owner.rows(), 0);
  }
}

TEST(RowPartitioner, RowsOfAnotherPlanAreRefused) {
  RandomCells random(46);
  const Query query{{"int64", "int64"}, {true, true}, {1}, {{"sum", 2, false}}};
  Arena arena = new_arena();
  const Head head = partitioned(*query.plan(), 1, random_rows(random, query, 50), arena, true);
  for (const Query& other : {Query{{"int64", "int64"}, {true, true}, {2}, {{"sum", 1, false}}},
                             Query{{"int64", "int64"}, {true, false}, {1}, {{"sum", 2, false}}},
                             Query{{"int64"}, {true}, {1}, {{"count", -1, false}}}}) {
    Accumulator owner(other.plan(), -1000);
    expect_error(Status::invalid_plan, "columns and keys", [&] { add_range(owner, head, arena, 0, all); });
  }
  // Another aggregate of the same rows is none of the rows' business.
  Accumulator owner(Query{{"int64", "int64"}, {true, true}, {1}, {{"max", 2, false}}}.plan(), -1000);
  add_range(owner, head, arena, 0, all);
  EXPECT_EQ(owner.rows(), 50);
}

TEST(RowPartitioner, RowsAreNeverTakenForGroupsNorGroupsForRows) {
  RandomCells random(47);
  const Query query{{"int64"}, {false}, {1}, {{"count", -1, false}}};
  const auto plan = query.plan();
  const auto of_rows = plan_of_rows(*plan, 2);
  Arena arena = new_arena();
  const Head rows = partitioned(*plan, 2, random_rows(random, query, 50), arena, true);
  const Bytes bytes = arena.view(rows.header.arena_offset, rows.header.length);
  const std::vector<int64_t> windows{3};
  Merger merger(plan, windows);
  expect_error(Status::invalid_plan, "fingerprint", [&] { merger.add(rows, 0, bytes); });
  Merger of_rows_merger(of_rows, windows);
  expect_error(Status::invalid_plan, "blocks of rows", [&] { of_rows_merger.add(rows, 0, bytes); });
  const std::vector<uint64_t> offsets{rows.header.arena_offset};
  expect_error(Status::invalid_plan, "blocks of rows", [&] { compact(of_rows, arena, offsets, INT64_MIN, identity); });
  expect_error(Status::invalid_plan, "nothing to aggregate", [&] { Accumulator accumulator(of_rows, 0); });
  expect_error(Status::invalid_plan, "asks for groups", [&] { RowPartitioner partitioner(plan); });
  Update keeping(of_rows, 0);
  expect_error(Status::invalid_plan, "nothing to aggregate", [&] { keeping.add_block(rows, 0, bytes); });
  Accumulator grouped(plan, -1000);
  grouped.add_block(rows, 0, bytes);
  const Head groups = read_head(seal(grouped, arena, identity));
  Accumulator owner(plan, -1000);
  const Bytes of_groups = arena.view(groups.header.arena_offset, groups.header.length);
  expect_error(Status::invalid_plan, "columns and keys", [&] { owner.add_block(groups, 0, of_groups); });
}

}  // namespace
}  // namespace pyslash
