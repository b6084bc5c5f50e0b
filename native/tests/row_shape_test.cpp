#include "pyslash/row_shape.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"
#include "mutations.h"
#include "spark_rows.h"

namespace pyslash {
namespace {

using Row = std::vector<uint8_t>;

uint64_t place(uint64_t offset, uint64_t size) { return offset << 32 | size; }

// A row of one field of variable length, which holds these bytes.
Row row_of(std::vector<uint64_t> words) {
  Row row(16 + words.size() * 8);
  store(row.data(), 1, place(16, words.size() * 8));
  for (size_t i = 0; i < words.size(); ++i) store(row.data(), 2 + i, words[i]);
  return row;
}

void refuses(const std::string& shape, const Row& row, const std::string& why) {
  expect_error(Status::corrupt_block, why, [&] { RowShape::parse(shape).check(row); });
}

TEST(RowShape, TakesEveryRowThatSparkWrites) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    spark::Type row{"row"};
    for (uint64_t left = random() % (i % 50 == 0 ? 140 : 5); left > 0; --left) {
      row.of.push_back(spark::random_type(random, 3));
    }
    const spark::Exact bytes(spark::Writer(random).row(row.of));
    RowShape::parse(row.text()).check(bytes.get());
    spark::Reader().row(row.of, bytes.get().data());
  }
}

TEST(RowShape, RefusesAFieldThatPointsOutside) {
  const std::string shape = "row 2 fixed 8 bytes";
  Row row(32);
  for (const uint64_t good : {place(24, 8), place(32, 0), place(0, 32)}) {
    store(row.data(), 2, good);
    RowShape::parse(shape).check(row);
  }
  for (const uint64_t bad : {place(24, 9), place(33, 0), place(1 << 20, 8), place(UINT32_MAX - 7, 8),
                             place(0, UINT32_MAX), place(0x80000000, 4), place(24, 0x80000000)}) {
    store(row.data(), 2, bad);
    refuses(shape, row, "points outside");
  }
  row[0] = 2;  // null: nobody looks where it points
  RowShape::parse(shape).check(row);
  refuses(shape, Row(16), "ends within its fields");
  refuses(shape, Row(31), "end with a word");  // Spark hashes a row by words
}

TEST(RowShape, RefusesWhatIsNested) {
  const auto max = static_cast<uint64_t>(INT64_MAX);
  refuses("row 1 decimal", row_of({}), "1 to 16 bytes");
  refuses("row 1 decimal", row_of({1, 2, 3}), "1 to 16 bytes");
  refuses("row 1 interval", row_of({1}), "16 bytes");
  refuses("row 1 variant", row_of({}), "ends too early");
  refuses("row 1 variant", row_of({5}), "ends too early");
  refuses("row 1 variant", row_of({UINT32_MAX}), "ends too early");
  refuses("row 1 array fixed 1", row_of({}), "ends too early");
  refuses("row 1 array fixed 1", row_of({9, 0, 0}), "within its elements");
  refuses("row 1 array fixed 1", row_of({max, 0, 0}), "no such number");
  refuses("row 1 array fixed 0", row_of({UINT64_MAX, 0, 0}), "no such number");
  refuses("row 1 array fixed 8", row_of({1U << 28, 0, 0}), "within its elements");
  refuses("row 1 array bytes", row_of({1, 0, place(24, 1)}), "points outside");
  refuses("row 1 map fixed 8 fixed 8", row_of({}), "ends too early");
  refuses("row 1 map fixed 8 fixed 8", row_of({9, 0}), "the keys of a map");
  refuses("row 1 map fixed 8 fixed 8", row_of({24, 1, 0, 7, 0}), "more keys than values");
  refuses("row 1 map fixed 8 fixed 8", row_of({max, 0, 0}), "the keys of a map");
  refuses("row 1 row 2 fixed 8 bytes", row_of({0, 0}), "within its fields");
  refuses("row 1 row 1 bytes", row_of({0, place(16, 1)}), "points outside");
}

// Each element is all of the array: nested so, a row of some KiB would take for ever to look at.
TEST(RowShape, RefusesWhatOverlaps) {
  std::vector<uint64_t> words{64, 0};
  for (int i = 0; i < 64; ++i) words.push_back(place(0, 8 * 66));
  std::string shape = "row 1 ";
  for (int i = 0; i < 12; ++i) shape += "array ";
  refuses(shape + "bytes", row_of(words), "overlap");
}

TEST(RowShape, IsARowOfKnownTypes) {
  for (const std::string text : {"", "bytes", "row", "row 1", "row -1", "row 1 fixed", "row 1 fixed 3", "row 1 int64",
                                 "row 1 bytes bytes", "row 1 map bytes", "row 99999999999 bytes", "row 1 array"}) {
    expect_error(Status::invalid_plan, "", [&] { RowShape::parse(text); });
  }
  std::string deep = "row 1 ";
  for (int i = 0; i < 300; ++i) deep += "array ";
  expect_error(Status::invalid_plan, "too deep", [&] { RowShape::parse(deep + "bytes"); });
  EXPECT_EQ(RowShape::parse("row 1 array bytes").text(), "row 1 array bytes");
  RowShape::any().check(Row(3));
}

TEST(RowFuzz, MutantsAreReadWithinTheirBytesOrRefused) {
  const char* given = std::getenv("PYSLASH_FUZZ_SEED");
  const uint64_t seed = given == nullptr ? 42 : std::strtoull(given, nullptr, 10);
  std::mt19937_64 random(seed);
  Mutator mutator(seed);
  uint64_t read = 0, refused = 0;
  for (uint64_t i = 0; i < fuzz_iterations(1000); ++i) {
    spark::Type type{"row"};
    for (uint64_t left = 1 + random() % 5; left > 0; --left) type.of.push_back(spark::random_type(random, 3));
    const RowShape shape = RowShape::parse(type.text());
    const Row row = spark::Writer(random).row(type.of);
    for (int mutant = 0; mutant < 20; ++mutant) {
      Row bytes = row;
      mutator.mutate(bytes, 0, bytes.size());
      if (mutant % 8 == 0) bytes.resize(mutator.below(bytes.size() + 1));
      const spark::Exact exact(bytes);
      try {
        shape.check(exact.get());
      } catch (const Error& error) {
        ASSERT_EQ(error.status(), Status::corrupt_block);
        ++refused;
        continue;
      }
      spark::Reader().row(type.of, exact.get().data());
      ++read;
    }
  }
  EXPECT_GT(read, refused / 20);  // or the mutants are of no use
  EXPECT_GT(refused, read / 20);
}

}  // namespace
}  // namespace pyslash
