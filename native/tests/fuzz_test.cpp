// Mutants of heads, segments, whole blocks, pages and Spark's rows, whose CRCs are made right again: a CRC is not a
// MAC. Each must be read, or refused with an error of our own, without a finding of the sanitizers and without memory
// that it has no bytes for. PYSLASH_FUZZ multiplies the mutants, PYSLASH_FUZZ_SEED makes others.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"
#include "mutations.h"
#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/compact.h"
#include "pyslash/crc32c.h"
#include "pyslash/hash.h"
#include "pyslash/home.h"
#include "pyslash/join.h"
#include "pyslash/join_rows.h"
#include "pyslash/merge.h"
#include "pyslash/row_partitioner.h"
#include "pyslash/row_shape.h"
#include "pyslash/seal.h"
#include "spark_rows.h"
#include "table.h"

namespace pyslash {
namespace {

constexpr BlockIdentity identity{{1}, 3, 4};
constexpr Id128 incarnation{9};
constexpr uint64_t room = 16 << 20;
constexpr int64_t window_us = 10'000'000;
constexpr long most_kilobytes = 64 << 10;  // of memory for one mutant

const std::vector<std::string> plans{
    "column int64 0\ncolumn int64 1\nkey 1\naggregate count - 0\naggregate sum 2 1\naggregate avg 2 0\n",
    "column string 1\ncolumn string 1\nkey 1\naggregate min 2 0\naggregate max 2 0\n",
    "column int32 1\ncolumn boolean 1\ncolumn decimal(20,2) 1\ncolumn decimal(8,2) 1\nkey 1\nkey 2\n"
    "aggregate sum 3 0\naggregate avg 3 0\naggregate avg 4 0\naggregate min 3 0\n",
    "column float64 1\naggregate sum 1 0\naggregate max 1 0\naggregate count 1 0\n",
    "column int64 0\ncolumn string 1\ncolumn float32 0\nkey 1\nkey 2\nkey 3\naggregate count 2 0\n",
    "column float64 1\ncolumn int64 1\ncolumn string 1\nkey 2\naggregate skewness 1 0\naggregate bit_xor 2 0\n"
    "aggregate covar_pop 1,1 0\naggregate max_by 3,2 0\naggregate min_by 1,3 0\naggregate first 3 0\n",
    "column int64 0\ncolumn binary 1\ncolumn int64 1\nkey 1\naggregate collect 2 0\naggregate count - 0\n"
    "aggregate approx_count_distinct 3 0 5\n",
    "deduplicate\ncolumn string 1\ncolumn int64 1\ncolumn string 1\nkey 1\naggregate first 2 0\naggregate first 3 0\n",
    "moments\ncolumn timestamp 1\ncolumn int64 1\nkey 1\naggregate count - 0\naggregate sum 2 0\n",
};

Plan plan_of(const std::string& lines, const std::string& slide) {
  return Plan::parse("pyslash-plan 1\nwindow 10000000 " + slide + " 0\n" + lines);
}

Arena new_arena() {
  const int fd = ::memfd_create("fuzz-test", MFD_CLOEXEC);
  Arena arena = Arena::create(fd, Arena::data_offset + room, incarnation);
  ::close(fd);
  return arena;
}

std::vector<uint8_t> bytes_of(const Arena& arena, const Head& head) {
  const Bytes block = arena.view(head.header.arena_offset, head.header.length);
  return {block.begin(), block.end()};
}

// The fields that a forger would make right, wherever they are in reach.
void reseal(std::vector<uint8_t>& block, bool segments) {
  Header header;
  if (block.size() < sizeof header) return;
  std::memcpy(&header, block.data(), sizeof header);
  const uint64_t entries = sizeof header + uint64_t{header.segment_count} * sizeof(SegmentEntry);
  const auto fits = [&](uint64_t offset, uint64_t length) {
    return offset <= block.size() && length <= block.size() - offset;
  };
  if (segments && fits(0, entries)) {
    for (uint64_t i = 0; i < header.segment_count; ++i) {
      uint8_t* at = block.data() + sizeof header + i * sizeof(SegmentEntry);
      auto entry = load<SegmentEntry>(at);
      if (fits(entry.offset, entry.length)) entry.crc = crc32c(block.data() + entry.offset, entry.length);
      store(at, 0, entry);
    }
  }
  if (fits(entries, header.plan_length)) {
    header.plan_fingerprint = hash_bytes(block.data() + entries, header.plan_length);
  }
  header.magic = block_magic;
  header.version = block_version;
  header.head_crc = 0;
  std::memcpy(block.data(), &header, sizeof header);
  if (!fits(0, header.head_length)) return;
  header.head_crc = crc32c(block.data(), header.head_length);
  std::memcpy(block.data(), &header, sizeof header);
}

// The most memory that this process has ever held, in KiB.
long most_memory() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

// Runs what reads bytes that nobody vouches for. Whatever it throws but our own error fails the test, and so does
// memory that a block of some KiB has no use for.
template <typename Body>
bool is_read(Body&& body) {
  const long before = most_memory();
  bool read = true;
  try {
    body();
  } catch (const Error&) {
    read = false;
  }
  EXPECT_LT(most_memory() - before, most_kilobytes);
  return read;
}

// A block of rows of a join, of both sides by turns, few keys, as Spark lays them out.
Head sealed_join(const std::shared_ptr<const Plan>& plan, Arena& arena, std::mt19937_64& random,
                 const spark::Type& type, size_t rows) {
  const std::vector<int64_t> times(rows, 1), epochs(rows, identity.epoch), never(rows, INT64_MAX), evicted(rows, 0);
  std::vector<int8_t> sides(rows);
  std::vector<uint8_t> keys, values;
  std::vector<int32_t> key_ends{0}, value_ends{0};
  for (size_t i = 0; i < rows; ++i) {
    sides[i] = static_cast<int8_t>(i % 2);
    keys.push_back(static_cast<uint8_t>(random() % 8));
    key_ends.push_back(static_cast<int32_t>(keys.size()));
    const std::vector<uint8_t> row = spark::Writer(random).row(type.of);
    values.insert(values.end(), row.begin(), row.end());
    value_ends.push_back(static_cast<int32_t>(values.size()));
  }
  std::vector<ColumnView> columns(join_columns);
  const void* data[] = {times.data(),   sides.data(), never.data(), epochs.data(),
                        evicted.data(), keys.data(),  values.data()};
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].type = plan->columns()[i].type;
    columns[i].values = static_cast<const uint8_t*>(data[i]);
  }
  columns[join_key].offsets = reinterpret_cast<const uint8_t*>(key_ends.data());
  columns[join_row].offsets = reinterpret_cast<const uint8_t*>(value_ends.data());
  JoinRows written(plan);
  written.add_columns(columns, rows);
  return read_head(written.seal(arena, identity));
}

class Fuzz : public ::testing::Test {
 protected:
  static uint64_t seed() {
    const char* given = std::getenv("PYSLASH_FUZZ_SEED");
    return given == nullptr ? 42 : std::strtoull(given, nullptr, 10);
  }
  // A block of random rows of the plan.
  static std::vector<uint8_t> sealed(const std::shared_ptr<const Plan>& plan, RandomCells& random, Arena& arena) {
    Accumulator accumulator(plan, INT64_MIN);
    const Table table = random_table(random, *plan, 200, 0, 3 * window_us);
    accumulator.add_columns(ArrowTable(*plan, table).columns(), table.size());
    return bytes_of(arena, read_head(seal(accumulator, arena, identity)));
  }
};

TEST_F(Fuzz, MutantsOfBlocksAreMergedOrRefused) {
  RandomCells random(seed());
  Mutator mutator(seed());
  uint64_t read = 0;
  const uint64_t iterations = fuzz_iterations(2000);
  for (const std::string& lines : plans) {
    for (const std::string slide : {"10000000", "2500000"}) {
      const auto plan = std::make_shared<const Plan>(plan_of(lines, slide));
      Arena arena = new_arena();
      const std::vector<uint8_t> block = sealed(plan, random, arena);
      const uint64_t head_bytes = read_head(block).header.head_length;
      for (uint64_t i = 0; i < iterations / 10; ++i) {
        std::vector<uint8_t> mutant = block;
        const bool of_head = i % 2 == 0;
        mutator.mutate(mutant, of_head ? 0 : head_bytes, of_head ? head_bytes : mutant.size());
        if (i % 16 == 0) mutant.resize(mutator.below(mutant.size()));
        reseal(mutant, i % 8 != 0);
        read += is_read([&] {
          const Head head = read_head(mutant);
          Merger merger(plan, std::vector<int64_t>{0, window_us, 2 * window_us});
          merger.add(head, 0, mutant);
          while (merger.next(1000)) {
          }
          // What an epoch has changed, merged from blocks and folded into a home.
          Merger changes(plan, std::vector<int64_t>{0, window_us}, 0, uint64_t{1} << 31, identity.epoch);
          changes.add(head, 0, mutant);
          while (changes.next(1000)) {
          }
          Home home(plan, 0, uint64_t{1} << 31);
          home.advance({"", "state", identity.epoch, INT64_MIN}, std::vector<MappedBlock>{{&head, mutant}});
          Home::Cursor cursor;
          while (home.next(cursor, 1000)) {
          }
        });
      }
    }
  }
  EXPECT_GT(read, iterations / 20);  // or the mutants are of no use
}

TEST_F(Fuzz, MutantsOfBlocksAreCompactedOrRefused) {
  RandomCells random(seed() + 1);
  Mutator mutator(seed() + 1);
  for (const std::string& lines : plans) {
    const auto plan = std::make_shared<const Plan>(plan_of(lines, "10000000"));
    Arena arena = new_arena();
    const std::vector<uint8_t> block = sealed(plan, random, arena);
    const uint64_t good = arena.blocks().front().offset;
    const uint64_t head_bytes = read_head(block).header.head_length;
    for (uint64_t i = 0; i < fuzz_iterations(200); ++i) {
      std::vector<uint8_t> mutant = block;
      const bool of_head = i % 2 == 0;
      mutator.mutate(mutant, of_head ? 0 : head_bytes, of_head ? head_bytes : mutant.size());
      const uint64_t offset = arena.allocate(mutant.size(), identity.query, 0);
      store(mutant.data() + offsetof(Header, arena_offset), 0, offset);
      reseal(mutant, true);
      std::memcpy(arena.data() + offset, mutant.data(), mutant.size());
      arena.publish(offset);
      std::vector<uint8_t> result;
      const bool folded = is_read([&] {
        result = compact(plan, arena, std::vector<uint64_t>{good, offset}, INT64_MIN, {identity.query, 1, 0});
      });
      if (folded) arena.free(read_head(result).header.arena_offset);
      arena.free(offset);
    }
    EXPECT_EQ(arena.blocks().size(), 1);
  }
}

TEST_F(Fuzz, MutantsOfBlocksOfRowsAreAggregatedOrRefused) {
  RandomCells random(seed() + 2);
  Mutator mutator(seed() + 2);
  for (const std::string& lines : plans) {
    const auto plan = std::make_shared<const Plan>(plan_of(lines, "10000000"));
    const std::string text = plan->text().substr(0, plan->text().find("aggregate ")) + "rows 3\n";
    Arena arena = new_arena();
    RowPartitioner partitioner(std::make_shared<const Plan>(Plan::parse(text)));
    const Table table = random_table(random, *plan, 200, 0, 3 * window_us);
    partitioner.add_columns(ArrowTable(*plan, table).columns(), table.size());
    const std::vector<uint8_t> block = bytes_of(arena, read_head(partitioner.seal(arena, identity)));
    const uint64_t head_bytes = read_head(block).header.head_length;
    for (uint64_t i = 0; i < fuzz_iterations(400); ++i) {
      std::vector<uint8_t> mutant = block;
      const bool of_head = i % 4 == 0;
      mutator.mutate(mutant, of_head ? 0 : head_bytes, of_head ? head_bytes : mutant.size());
      reseal(mutant, true);
      is_read([&] {
        Accumulator owner(plan, INT64_MIN);
        owner.add_block(read_head(mutant), 0, mutant);
      });
    }
  }
}

TEST_F(Fuzz, MutantsOfPagesAreAggregatedOrRefused) {
  RandomCells random(seed() + 3);
  Mutator mutator(seed() + 3);
  for (const std::string& lines : plans) {
    const auto plan = std::make_shared<const Plan>(plan_of(lines, "10000000"));
    const Table table = random_table(random, *plan, 50, 0, 3 * window_us);
    const std::vector<uint8_t> page = to_page(*plan, table);
    for (uint64_t i = 0; i < fuzz_iterations(400); ++i) {
      std::vector<uint8_t> mutant = page;
      mutator.mutate(mutant, 0, mutant.size());
      if (i % 8 == 0) mutant.resize(mutator.below(mutant.size()));
      is_read([&] {
        Accumulator accumulator(plan, INT64_MIN);
        accumulator.add_rows(mutant.data(), mutant.size(), table.size() + (i % 5 == 0 ? mutator.below(3) : 0));
      });
    }
  }
}

// A join's block whose rows are changed: what a home gives of them is read as Spark would.
TEST_F(Fuzz, MutantsOfBlocksOfJoinsAreJoinedOrRefused) {
  std::mt19937_64 random(seed() + 5);
  Mutator mutator(seed() + 5);
  const auto plan = std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 10000000 0\njoin\ncolumn int8 0\ncolumn int64 0\ncolumn int64 0\n"
                  "column int64 0\ncolumn binary 0\ncolumn binary 0\nkey 5\nrows 0\n"));
  const spark::Type type{"row", {{"fixed 8"}, {"bytes"}, {"array", {{"bytes"}}}, {"row", {{"bytes"}, {"fixed 8"}}}}};
  const JoinShapes shapes{RowShape::parse(type.text()), RowShape::parse(type.text())};
  uint64_t joined = 0;
  for (uint64_t i = 0; i < fuzz_iterations(20); ++i) {
    Arena arena = new_arena();
    const Head sealed = sealed_join(plan, arena, random, type, 60);
    const std::vector<uint8_t> block = bytes_of(arena, sealed);
    for (int mutant = 0; mutant < 20; ++mutant) {
      std::vector<uint8_t> bytes = block;
      mutator.mutate(bytes, mutant % 4 == 0 ? 0 : sealed.header.head_length, bytes.size());
      reseal(bytes, true);
      joined += is_read([&] {
        const Head head = read_head(bytes);
        JoinHome home(plan, 0, uint64_t{1} << 32, {true, true, true}, shapes);
        home.advance({"", "state", identity.epoch, INT64_MIN, 0, INT64_MAX}, std::vector<MappedBlock>{{&head, bytes}});
        JoinHome::Cursor cursor;
        std::vector<RowPair> pairs;
        while (home.next(cursor, 1000, pairs) != JoinPhase::done) {
          for (const RowPair& pair : pairs) {
            for (const uint8_t* row : {pair.left, pair.right}) {
              if (row == nullptr) continue;
              const spark::Exact exact(row, load<uint32_t>(row - 12));  // as io.pyslash.join.KeptRow finds its size
              spark::Reader().row(type.of, exact.get().data());
            }
          }
        }
      });
    }
  }
  EXPECT_GT(joined, 0U);
}

// One by one, the attacks that the checks are for.

std::vector<uint8_t> sealed_rows(const std::shared_ptr<const Plan>& plan, Arena& arena, size_t rows) {
  RandomCells random(7);
  Accumulator accumulator(plan, INT64_MIN);
  Table table(rows);
  for (size_t i = 0; i < rows; ++i) {
    table[i] = {integer_cell(0), integer_cell(static_cast<int64_t>(i)), integer_cell(1)};
    table[i].resize(plan->columns().size());
  }
  accumulator.add_columns(ArrowTable(*plan, table).columns(), rows);
  return bytes_of(arena, read_head(seal(accumulator, arena, identity)));
}

SegmentEntry& entry_of(std::vector<uint8_t>& block, size_t index) {
  return *reinterpret_cast<SegmentEntry*>(block.data() + sizeof(Header) + index * sizeof(SegmentEntry));
}

TEST(Attack, AKeyOutsideOfItsSegmentsPrefixesIsFound) {
  const auto plan = std::make_shared<const Plan>(plan_of(plans[0], "10000000"));
  Arena arena = new_arena();
  std::vector<uint8_t> block = sealed_rows(plan, arena, 40'000);
  const uint64_t offset = arena.blocks().front().offset;
  // The first segment's keys under the second one's prefixes, and the other way round.
  const SegmentEntry first = entry_of(block, 0);
  const SegmentEntry second = entry_of(block, 1);
  std::vector<uint8_t> swapped = block;
  std::memcpy(swapped.data() + first.offset, block.data() + second.offset, second.length);
  std::memcpy(swapped.data() + first.offset + second.length, block.data() + first.offset, first.length);
  entry_of(swapped, 0).rows = second.rows;
  entry_of(swapped, 0).length = second.length;
  entry_of(swapped, 1).rows = first.rows;
  entry_of(swapped, 1).offset = first.offset + second.length;
  entry_of(swapped, 1).length = first.length;
  reseal(swapped, true);
  std::memcpy(arena.data() + offset, swapped.data(), swapped.size());
  expect_error(Status::corrupt_block, "other prefixes",
               [&] { compact(plan, arena, std::vector<uint64_t>{offset}, INT64_MIN, {identity.query, 1, 0}); });
}

TEST(Attack, SegmentsLieBackToBack) {
  const auto plan = std::make_shared<const Plan>(plan_of(plans[0], "10000000"));
  Arena arena = new_arena();
  std::vector<uint8_t> block = sealed_rows(plan, arena, 40'000);
  entry_of(block, 0).offset += uint64_t{1} << 32;
  reinterpret_cast<Header*>(block.data())->length += uint64_t{1} << 33;
  reseal(block, false);
  expect_error(Status::corrupt_block, "points outside", [&] { read_head(block); });
}

TEST(Attack, WithoutKeysThereIsOneGroup) {
  const auto plan = std::make_shared<const Plan>(plan_of("column int64 0\naggregate count - 0\n", "10000000"));
  Arena arena = new_arena();
  std::vector<uint8_t> block = sealed_rows(plan, arena, 1);
  for (const uint32_t rows : {64U, UINT32_MAX}) {
    entry_of(block, 0).rows = rows;
    reinterpret_cast<Header*>(block.data())->groups = rows;
    const uint64_t none = 0;  // an absent buffer says that all groups' states are zero
    std::memcpy(block.data() + entry_of(block, 0).offset, &none, sizeof none);
    reseal(block, true);
    expect_error(Status::corrupt_block, rows == 64 ? "no keys" : "more groups than bytes", [&] {
      const Head head = read_head(block);
      Merger merger(plan, std::vector<int64_t>{0});
      merger.add(head, 0, block);
      merger.next(1000);
    });
  }
}

}  // namespace
}  // namespace pyslash
