// The join of two streams: what an epoch costs a home that keeps the rows of the epochs before it, from the bytes of
// the epoch's block to the last pair of rows with equal keys. Conditions and the rows of the result are Spark's.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/join.h"
#include "pyslash/join_rows.h"
#include "pyslash/plan.h"
#include "rows.h"

namespace pyslash {
namespace {

constexpr uint64_t every_prefix = uint64_t{1} << 32;
constexpr int64_t kept_epochs = 8;
constexpr size_t most_pairs = 4096;
constexpr size_t key_bytes = 16;  // Spark's row of a bigint
constexpr size_t row_bytes = 32;  // and of three

std::shared_ptr<const Plan> join_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 60000000 60000000 0\njoin\ncolumn int8 0\ncolumn int64 0\ncolumn int64 0\n"
                  "column int64 0\ncolumn binary 0\ncolumn binary 0\nkey 5\nrows 0\n"));
}

// An epoch's block: rows of both sides by turns, their keys uniform among `distinct`.
Head sealed(Arena& arena, const std::shared_ptr<const Plan>& plan, int64_t epoch, size_t rows, uint64_t distinct) {
  std::mt19937_64 random(static_cast<uint64_t>(epoch) + 1);
  const std::vector<int64_t> times(rows, kSecond), epochs(rows, epoch), evicted(rows, 0);
  std::vector<int8_t> sides(rows);
  std::vector<int64_t> keys(rows * key_bytes / sizeof(int64_t)), values(rows * row_bytes / sizeof(int64_t));
  std::vector<int32_t> key_ends(rows + 1), row_ends(rows + 1);
  for (size_t row = 0; row < rows; ++row) {
    sides[row] = static_cast<int8_t>(row % 2);
    keys[2 * row + 1] = static_cast<int64_t>(random() % distinct);
    key_ends[row + 1] = static_cast<int32_t>((row + 1) * key_bytes);
    row_ends[row + 1] = static_cast<int32_t>((row + 1) * row_bytes);
  }
  std::vector<ColumnView> columns(join_columns);
  const void* data[] = {times.data(),   sides.data(), times.data(), epochs.data(),
                        evicted.data(), keys.data(),  values.data()};
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].type = plan->columns()[i].type;
    columns[i].values = static_cast<const uint8_t*>(data[i]);
  }
  columns[join_key].offsets = reinterpret_cast<const uint8_t*>(key_ends.data());
  columns[join_row].offsets = reinterpret_cast<const uint8_t*>(row_ends.data());
  JoinRows written(plan);
  written.add_columns(columns, rows);
  return read_head(written.seal(arena, {{}, epoch, 0}));
}

// How rows are checked: not at all; of three bigints, of which only the size is; of three strings, which are empty.
JoinShapes shapes_of(int64_t checked) {
  if (checked == 0) return {};
  const RowShape shape = RowShape::parse(checked == 1 ? "row 3 fixed 8 fixed 8 fixed 8" : "row 3 bytes bytes bytes");
  return {shape, shape};
}

// Arguments: rows of an epoch, keys, how rows are checked. A home keeps the rows of eight epochs.
void join(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const auto plan = join_plan();
  Arena arena = new_arena();
  std::vector<Head> heads;
  for (int64_t epoch = 0; epoch <= kept_epochs; ++epoch) {
    heads.push_back(sealed(arena, plan, epoch, rows, static_cast<uint64_t>(state.range(1))));
  }
  double fold = 0, probe = 0;
  size_t found = 0;
  std::vector<RowPair> pairs;
  for (auto _ : state) {
    JoinHome home(plan, 0, every_prefix, {}, shapes_of(state.range(2)));
    const auto advance = [&](int64_t epoch) {
      const Head& head = heads[static_cast<size_t>(epoch)];
      const MappedBlock block{&head, arena.view(head.header.arena_offset, head.header.length)};
      const std::string before = epoch == 0 ? "" : std::to_string(epoch - 1);
      home.advance({before, std::to_string(epoch), epoch, 0}, {&block, 1});
    };
    for (int64_t epoch = 0; epoch < kept_epochs; ++epoch) advance(epoch);
    const double began = cpu_seconds();
    advance(kept_epochs);
    const double folded = cpu_seconds();
    JoinHome::Cursor cursor;
    found = 0;
    while (home.next(cursor, most_pairs, pairs) != JoinPhase::done) found += pairs.size();
    const double ended = cpu_seconds();
    fold += folded - began;
    probe += ended - folded;
    state.SetIterationTime(ended - began);
    if (home.rows() != rows * heads.size()) state.SkipWithError("the wrong number of rows");
  }
  const double each = 1e9 / static_cast<double>(rows) / static_cast<double>(state.iterations());
  state.counters["fold ns/row"] = fold * each;
  state.counters["probe ns/row"] = probe * each;
  state.counters["pairs"] = static_cast<double>(found);
}
BENCHMARK(join)
    ->ArgsProduct({{125'000, 500'000}, {500'000}, {0, 1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pyslash
