#include "pyslash/key_index.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "expect_error.h"
#include "query.h"
#include "table.h"

namespace pyslash {
namespace {

using Key = std::vector<std::string>;

Key key_of(const Plan& plan, const std::vector<Cell>& row) {
  Key key;
  for (const int column : plan.keys()) {
    const auto index = static_cast<size_t>(column);
    key.push_back(text_of(plan.columns()[index].type, row[index]));
  }
  return key;
}

void add(KeyIndex& index, const Table& table) {
  index.add(ArrowTable(index.plan(), table, 3, true).columns(), table.size());
}

std::vector<int32_t> find(KeyIndex& index, const Table& table) {
  std::vector<int32_t> found(table.size(), 77);
  index.find(ArrowTable(index.plan(), table, 5, false).columns(), table.size(), found);
  return found;
}

TEST(KeyIndex, FindsTheRowsThatAMapFinds) {
  RandomCells random(61);
  for (int round = 0; round < 300; ++round) {
    const auto plan = random_query(random).plan();
    std::map<Key, int32_t> rows;
    Table table;
    for (auto& row : random_table(random, *plan, random.below(300), 0, 10)) {
      if (rows.emplace(key_of(*plan, row), static_cast<int32_t>(table.size())).second) table.push_back(row);
    }
    KeyIndex index(plan);
    const auto half = static_cast<std::ptrdiff_t>(table.size() / 2);
    add(index, {table.begin(), table.begin() + half});
    add(index, {table.begin() + half, table.end()});
    ASSERT_EQ(index.rows(), table.size());
    const Table sought = random_table(random, *plan, random.below(10'000), 0, 10);
    std::vector<int32_t> expected;
    for (const auto& row : sought) {
      const auto found = rows.find(key_of(*plan, row));
      expected.push_back(found == rows.end() ? -1 : found->second);
    }
    SCOPED_TRACE(plan->text());
    ASSERT_EQ(find(index, sought), expected);
    EXPECT_EQ(index.rows(), table.size()) << "what is sought is not added";
  }
}

TEST(KeyIndex, ManyRowsAreAllFound) {
  const Query query{{"int64", "binary"}, {false, false}, {1, 2}, {{"count", -1, false}}};
  Table table;
  for (int i = 0; i < 100'000; ++i) table.push_back({integer_cell(0), integer_cell(i), bytes_cell(std::to_string(-i))});
  KeyIndex index(query.plan());
  add(index, table);
  const std::vector<int32_t> found = find(index, table);
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(found[static_cast<size_t>(i)], i);
}

TEST(KeyIndex, AKeyThatComesTwiceIsRefused) {
  const Query query{{"string"}, {true}, {1}, {{"count", -1, false}}};
  const Table table{{integer_cell(0), bytes_cell("a")}, {integer_cell(1), bytes_cell("b")}};
  KeyIndex index(query.plan());
  add(index, table);
  expect_error(Status::invalid_input, "twice", [&] { add(index, {{integer_cell(2), bytes_cell("a")}}); });
}

TEST(KeyIndex, FindingsHaveToHaveRoom) {
  KeyIndex index(Query{{"int64"}, {true}, {1}, {{"count", -1, false}}}.plan());
  std::vector<int32_t> found(2);
  const Table table{{integer_cell(0), integer_cell(1)}};
  expect_error(Status::invalid_input, "room for 2",
               [&] { index.find(ArrowTable(index.plan(), table, 0, true).columns(), 1, found); });
}

}  // namespace
}  // namespace pyslash
