// Sums by window and key of random rows, as blocks and as what a merge, or a home, is to make of them.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/bytes.h"
#include "pyslash/plan.h"
#include "pyslash/record_batch.h"
#include "pyslash/seal.h"

namespace pyslash::sums {

inline constexpr Id128 query{1};
inline constexpr uint64_t every_prefix = uint64_t{1} << 32;

struct Row {
  int64_t time;
  int64_t key;
  int64_t value;
};

// {window start, key} -> {rows, sum}
using Result = std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>>;

inline std::shared_ptr<const Plan> plan_of(int64_t size, int64_t slide) {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow " + std::to_string(size) + " " + std::to_string(slide) +
                  " 0\ncolumn int64 0\ncolumn int64 0\nkey 1\naggregate count - 0\naggregate sum 2 1\n"));
}

inline Arena new_arena() {
  const int fd = ::memfd_create("sums-test", MFD_CLOEXEC);
  Arena arena = Arena::create(fd, Arena::data_offset + (64 << 20), Id128{9});
  ::close(fd);
  return arena;
}

// The rows as a block in the arena; none if all of them are late.
inline std::optional<Head> sealed(const std::shared_ptr<const Plan>& plan, Arena& arena, const std::vector<Row>& rows,
                                  int64_t epoch, int64_t watermark_us = INT64_MIN / 2, Position first = {}) {
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
  Accumulator accumulator(plan, watermark_us, first);
  accumulator.add_columns(columns, rows.size());
  if (accumulator.groups() == 0) return std::nullopt;
  return read_head(seal(accumulator, arena, {query, epoch, 0}));
}

// Starts of the windows that hold a time.
inline std::vector<int64_t> windows_of(const Window& window, int64_t time) {
  std::vector<int64_t> starts;
  const int64_t pane = window.pane_of(time);
  for (int64_t start = window.first_window_of(pane); start <= window.last_window_of(pane); start += window.slide_us()) {
    starts.push_back(start);
  }
  return starts;
}

// All rows of a merger or a home, read by `next(max_rows)`: each group once.
template <typename Next>
Result collected(const Plan& plan, size_t max_rows, Next&& next) {
  Result result;
  while (const std::optional<RecordBatch> batch = next(max_rows)) {
    EXPECT_LE(batch->rows, max_rows);
    const auto value = [&](size_t column, size_t row) {
      return load<int64_t>(batch->columns[column].values.data(), row);
    };
    for (size_t row = 0; row < batch->rows; ++row) {
      EXPECT_EQ(value(1, row), value(0, row) + plan.window().size_us());
      const bool first =
          result.emplace(std::pair{value(0, row), value(2, row)}, std::pair{value(3, row), value(4, row)}).second;
      EXPECT_TRUE(first);
    }
  }
  return result;
}

inline std::vector<Row> random_rows(std::mt19937_64& random, size_t rows, int64_t from, int64_t times, int64_t keys) {
  std::vector<Row> out(rows);
  for (Row& row : out) {
    row = {from + static_cast<int64_t>(random() % static_cast<uint64_t>(times)),
           static_cast<int64_t>(random() % static_cast<uint64_t>(keys)), static_cast<int64_t>(random() % 1000) - 500};
  }
  return out;
}

}  // namespace pyslash::sums
