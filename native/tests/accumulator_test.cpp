#include "pyslash/accumulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "expect_error.h"
#include "model.h"
#include "pyslash/seal.h"
#include "query.h"
#include "sealed.h"
#include "table.h"

namespace pyslash {
namespace {

// The page with each row behind its size, where it has them back to back.
std::vector<uint8_t> with_sizes(const Plan& plan, const std::vector<uint8_t>& page) {
  const size_t row_size = plan.fixed_row_bytes();
  if (row_size == 0) return page;
  std::vector<uint8_t> sized;
  for (size_t at = 0; at < page.size(); at += row_size) {
    const size_t end = sized.size();
    sized.resize(end + sizeof(int64_t) + row_size);
    store(sized.data() + end, 0, static_cast<int64_t>(row_size));
    std::memcpy(sized.data() + end + sizeof(int64_t), page.data() + at, row_size);
  }
  return sized;
}

void expect_like_model(const Query& query, const Table& table, int64_t watermark) {
  const auto plan = query.plan();
  const ModelResult expected = model(*plan, query.lines, table, watermark);
  const std::vector<uint8_t> page = to_page(*plan, table);
  Accumulator from_rows(plan, watermark);
  from_rows.add_rows(page.data(), page.size(), table.size());
  Accumulator from_sized_rows(plan, watermark);
  const std::vector<uint8_t> sized = with_sizes(*plan, page);
  from_sized_rows.add_rows(sized.data(), sized.size(), table.size());
  Accumulator from_columns(plan, watermark);
  const size_t half = table.size() / 2;
  const ArrowTable whole(*plan, table, 0, true);
  from_columns.add_columns(whole.columns(), half);
  const Table second(table.begin() + static_cast<std::ptrdiff_t>(half), table.end());
  const ArrowTable rest(*plan, second, 13, false);
  from_columns.add_columns(rest.columns(), second.size());
  Accumulator from_values(plan, watermark);
  from_values.add_values(ValueTable(*plan, table).columns(), table.size());
  for (const Accumulator* accumulator : {&from_rows, &from_sized_rows, &from_columns, &from_values}) {
    SCOPED_TRACE(plan->text() + (accumulator == &from_values    ? "from values"
                                 : accumulator == &from_columns ? "from columns"
                                                                : "from rows"));
    EXPECT_EQ(accumulator->rows(), static_cast<int64_t>(table.size()));
    EXPECT_EQ(accumulator->late_rows(), expected.late_rows);
    EXPECT_EQ(accumulator->max_event_time(), expected.max_event_time);
    EXPECT_EQ(accumulator->groups(), static_cast<int64_t>(expected.groups.size()));
    ASSERT_EQ(read_groups(*plan, sealed(*accumulator).block), expected.groups);
  }
}

TEST(Accumulator, AnyQueryGivesWhatTheModelGives) {
  RandomCells random(21);
  for (int round = 0; round < 300; ++round) {
    const Query query = random_query(random);
    const Table table = random_table(random, *query.plan(), random.below(400), -50, 100);
    expect_like_model(query, table, -20);
    if (HasFatalFailure()) return;
  }
}

TEST(Accumulator, EveryTypeAsKeyAndValue) {
  RandomCells random(22);
  for (const std::string& type : all_types) {
    for (const bool nullable : {false, true}) {
      Query query{{type, "int64"}, {nullable, true}, {1}, {{"count", -1, false}, {"min", 1, false}, {"sum", 2, false}}};
      expect_like_model(query, random_table(random, *query.plan(), 5000, 0, 10), -1000);
      query.keys = {2};
      query.lines = {{"max", 1, false}, {"count", 1, false}};
      if (is_numeric(type)) query.lines.insert(query.lines.end(), {{"sum", 1, false}, {"avg", 1, false}});
      expect_like_model(query, random_table(random, *query.plan(), 5000, 0, 10), -1000);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Accumulator, MoreColumnsThanANullWordHasBits) {
  RandomCells random(23);
  Query query;
  for (int i = 0; i < 130; ++i) {
    query.types.push_back(i % 3 == 0 ? "int16" : "int64");
    query.nullable.push_back(true);
  }
  query.keys = {1, 64, 128, 130};
  query.lines = {{"sum", 63, false}, {"count", 64, false}, {"max", 65, false}, {"min", 129, false}};
  expect_like_model(query, random_table(random, *query.plan(), 900, 0, 30), -1000);
}

TEST(Accumulator, ManyPanesInOneBatch) {
  RandomCells random(24);
  const Query query{{"int64"}, {false}, {1}, {{"count", -1, false}}, "7000 1000 -5"};
  // More panes than the cache of panes has slots, visited at random, in negative and positive time.
  expect_like_model(query, random_table(random, *query.plan(), 30'000, -2'000'000, 4'000'000), -1'000'000);
}

TEST(Accumulator, SegmentsAreNarrowForReadersAndFitTheCacheOfAMerge) {
  const uint64_t all = uint64_t{1} << 32;
  const auto segments = [&](uint64_t groups) { return segments_of(groups, all); };
  EXPECT_EQ((std::array{segments(0), segments(255), segments(256), segments(1000), segments(10'000)}),
            (std::array<uint64_t, 5>{1, 1, 2, 4, 64}));
  EXPECT_EQ((std::array{segments(500'000), segments(10'000'000), segments(100'000'000)}),
            (std::array<uint64_t, 3>{64, 2048, 4096}));
  // A part of all prefixes, as a compaction has: it is cut as finely as the whole would be.
  EXPECT_EQ(segments_of(10'000 / 16, all / 16), 4u);
  EXPECT_EQ(segments_of(10'000, all / 64), 2u);  // for the cache
  EXPECT_EQ(segments_of(8'000, all / 64), 1u);
  EXPECT_EQ(segments_of(20'000, 1), 1u);
}

TEST(Accumulator, ManyGroupsMakeSegmentsByPrefix) {
  for (const std::string type : {"int64", "string", "decimal(20,0)"}) {
    const Query query{{type}, {true}, {1}, {{"count", -1, false}, {"max", 1, false}}};
    const auto plan = query.plan();
    Table table;
    for (int i = 0; i < 50'000; ++i) {
      table.push_back({integer_cell(5), integer_cell(i)});
      table.back()[1].bytes = std::to_string(i);
    }
    table.push_back({integer_cell(5), null_cell()});
    const std::vector<uint8_t> page = to_page(*plan, table);
    Accumulator accumulator(plan, INT64_MIN / 2);
    accumulator.add_rows(page.data(), page.size(), table.size());
    const Sealed block = sealed(accumulator);
    const Head head = read_head(block.block);
    EXPECT_EQ(head.segments.size(), 64u);
    EXPECT_EQ(head.header.groups, 50'001u);
    EXPECT_EQ(read_groups(*plan, block.block), model(*plan, query.lines, table, INT64_MIN / 2).groups);
  }
}

TEST(Accumulator, AnsiOverflowRaises) {
  RandomCells random(25);
  int raised = 0;
  for (const std::string type : {"int64", "int32", "decimal(18,0)", "decimal(38,10)", "decimal(30,0)"}) {
    for (const std::string function : {"sum", "avg"}) {
      for (int round = 0; round < 200; ++round) {
        const Query query{{type}, {true}, {}, {{function, 1, true}}};
        const auto plan = query.plan();
        const Table table = random_table(random, *plan, 1 + random.below(6), 0, 10);
        const ModelResult expected = model(*plan, query.lines, table, -1000);
        const std::vector<uint8_t> page = to_page(*plan, table);
        Accumulator accumulator(plan, -1000);
        accumulator.add_rows(page.data(), page.size(), table.size());
        const Sealed block = sealed(accumulator);
        const bool overflow = std::any_of(expected.groups.begin(), expected.groups.end(),
                                          [](const auto& group) { return group.second[0] == "overflow"; });
        if (overflow) {
          ++raised;
          expect_error(Status::arithmetic_overflow, "[ARITHMETIC_OVERFLOW] " + function,
                       [&] { read_groups(*plan, block.block); });
        } else {
          EXPECT_EQ(read_groups(*plan, block.block), expected.groups);
        }
      }
    }
  }
  EXPECT_GT(raised, 20);
}

TEST(Accumulator, ASumThatOverflowsOnItsWayIsExactInTheEnd) {
  const Query query{{"int64"}, {false}, {}, {{"sum", 1, true}, {"avg", 1, true}}};
  Table table;
  for (const int64_t value : {INT64_MAX, INT64_MAX, int64_t{5}, -INT64_MAX, -INT64_MAX}) {
    table.push_back({integer_cell(0), integer_cell(value)});
  }
  expect_like_model(query, table, -1000);
  EXPECT_EQ(model(*query.plan(), query.lines, table, -1000).groups.begin()->second[0], "5");
}

TEST(Accumulator, NoRowsOrOnlyLateOnesMakeAReceiptWithoutABlock) {
  const Query query{{"int64"}, {true}, {1}, {{"count", -1, false}}};
  const auto plan = query.plan();
  Accumulator accumulator(plan, 1000);
  accumulator.add_rows(nullptr, 0, 0);
  EXPECT_EQ(accumulator.max_event_time(), INT64_MIN);
  const Table late{{integer_cell(900), integer_cell(1)}, {null_cell(), integer_cell(2)}};
  const std::vector<uint8_t> page = to_page(*plan, late);
  accumulator.add_rows(page.data(), page.size(), late.size());
  const Sealed block = sealed(accumulator);
  EXPECT_TRUE(block.block.empty());
  const Head head = read_head(block.head);
  EXPECT_EQ(head.header.length, 0u);
  EXPECT_EQ(head.header.rows, 2u);
  EXPECT_EQ(head.header.late_rows, 1u);
  EXPECT_EQ(head.header.max_event_time, 900);
  EXPECT_TRUE(head.segments.empty());
}

TEST(Accumulator, TimesThatNoWindowCanHoldAreRefused) {
  const Query query{{"int64"}, {true}, {1}, {{"count", -1, false}}};
  const auto plan = query.plan();
  for (const int64_t time : {INT64_MIN, INT64_MAX, plan->window().min_time() - 1, plan->window().max_time() + 1}) {
    for (const bool beside_another : {false, true}) {
      Table table{{integer_cell(time), integer_cell(1)}};
      if (beside_another) table.push_back({null_cell(), integer_cell(1)});
      const std::vector<uint8_t> page = to_page(*plan, table);
      Accumulator accumulator(plan, 0);
      expect_error(Status::invalid_input, "event time",
                   [&] { accumulator.add_rows(page.data(), page.size(), table.size()); });
    }
  }
  expect_like_model(query,
                    {{integer_cell(plan->window().min_time()), integer_cell(1)},
                     {integer_cell(plan->window().max_time()), integer_cell(1)}},
                    INT64_MIN / 2);
}

TEST(Accumulator, ColumnsMustBeThePlans) {
  const Query query{{"int64", "string"}, {false, true}, {1}, {{"count", -1, false}}};
  const auto plan = query.plan();
  const Table table{{integer_cell(1), integer_cell(2), bytes_cell("x")}};
  const ArrowTable arrow(*plan, table);
  Accumulator accumulator(plan, -1000);
  std::vector<ColumnView> columns = arrow.columns();
  columns.pop_back();
  expect_error(Status::invalid_input, "2 columns where the plan has 3", [&] { accumulator.add_columns(columns, 1); });
  columns = arrow.columns();
  columns[1].type = Type::parse("int32");
  expect_error(Status::invalid_input, "column 1 is int32 where the plan has int64",
               [&] { accumulator.add_columns(columns, 1); });
  columns = arrow.columns();
  const uint8_t none_valid = 0;
  columns[1].validity = &none_valid;
  expect_error(Status::invalid_input, "column 1 holds a null", [&] { accumulator.add_columns(columns, 1); });
  columns = arrow.columns();
  const int32_t backwards[] = {4, 3};
  columns[2].offsets = reinterpret_cast<const uint8_t*>(backwards);
  expect_error(Status::invalid_input, "go back", [&] { accumulator.add_columns(columns, 1); });
  const int32_t negative[] = {-4, 3};
  columns[2].offsets = reinterpret_cast<const uint8_t*>(negative);
  expect_error(Status::invalid_input, "negative offset", [&] { accumulator.add_columns(columns, 1); });
  const ValueTable own(*plan, {{integer_cell(1), null_cell(), bytes_cell("x")}});
  expect_error(Status::invalid_input, "column 1 holds a null", [&] { accumulator.add_values(own.columns(), 1); });
  columns = arrow.columns();
  columns[0].type = Type::parse("timestamp_ntz");
  accumulator.add_columns(columns, 1);
  EXPECT_EQ(accumulator.groups(), 1);
}

// Panes hand their tables on as event time advances, and get rows long after all the same.
TEST(Accumulator, RowsOfPanesThatSeemedPast) {
  const auto plan = std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10 10 0\ncolumn int64 1\nkey 1\naggregate count - 0\n"));
  constexpr size_t rows = 4096;  // of a batch
  std::mt19937_64 random(7);
  std::map<std::pair<int64_t, std::string>, int64_t> expected;
  Accumulator accumulator(plan, -1000);
  for (int64_t batch = 0; batch < 400; ++batch) {
    std::vector<int64_t> times(rows), keys(rows);
    std::vector<uint8_t> valid(rows / 8, 0xff);
    for (size_t row = 0; row < rows; ++row) {
      const bool straggler = batch % 90 == 89 && random() % 16 == 0;
      const int64_t pane = straggler ? static_cast<int64_t>(random() % 400) : batch / 10;
      times[row] = 10 * pane;
      keys[row] = static_cast<int64_t>(random() % (pane % 3 == 0 ? 900 : 20));
      const bool null = random() % 50 == 0;
      if (null) valid[row / 8] &= static_cast<uint8_t>(~(1U << (row % 8)));
      ++expected[{times[row], null ? "null" : std::to_string(keys[row])}];
    }
    std::vector<ColumnView> columns(2);
    columns[0].type = plan->columns()[0].type;
    columns[0].values = reinterpret_cast<const uint8_t*>(times.data());
    columns[1].type = plan->columns()[1].type;
    columns[1].values = reinterpret_cast<const uint8_t*>(keys.data());
    columns[1].validity = valid.data();
    accumulator.add_columns(columns, rows);
  }
  Groups counted;
  for (const auto& [group, count] : expected) {
    counted[{group.first, {group.second}}] = {std::to_string(count)};
  }
  EXPECT_EQ(accumulator.groups(), static_cast<int64_t>(counted.size()));
  EXPECT_EQ(read_groups(*plan, sealed(accumulator).block), counted);
}

}  // namespace
}  // namespace pyslash
