// The core's loops on one core: cycles a record for update, seal and merge, and the memory's bandwidth beside them.
//
// Cycles are CPU seconds times the processor's nominal frequency, as google-benchmark reads it.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/merge.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"
#include "rows.h"

namespace pyslash {
namespace {

// The same rows as Spark's UnsafeRows of `fields` columns of eight bytes: null bits, then the values.
std::vector<int64_t> page_of(const Rows& rows, size_t fields) {
  const std::vector<int64_t>* all[] = {&rows.times, &rows.keys, &rows.values};
  std::vector<int64_t> page;
  page.reserve(rows.keys.size() * (fields + 1));
  for (size_t row = 0; row < rows.keys.size(); ++row) {
    page.push_back(0);
    for (size_t field = 0; field < fields; ++field) page.push_back((*all[field])[row]);
  }
  return page;
}

void update_columns(benchmark::State& state, const std::shared_ptr<const Plan>& plan) {
  const Rows rows(state.range(0), *plan);
  const Measured measured(state);
  for (auto _ : state) {
    Accumulator accumulator(plan, INT64_MIN / 2);
    rows.add_columns_to(accumulator);
    benchmark::DoNotOptimize(accumulator.groups());
  }
  measured.done(rows.keys.size());
}

void update_rows(benchmark::State& state, const std::shared_ptr<const Plan>& plan) {
  const Rows rows(state.range(0));
  const size_t fields = plan->columns().size();
  const std::vector<int64_t> page = page_of(rows, fields);
  const size_t words = kBatch * (fields + 1);
  const Measured measured(state);
  for (auto _ : state) {
    Accumulator accumulator(plan, INT64_MIN / 2);
    for (size_t batch = 0; batch < kBatches; ++batch) {
      accumulator.add_rows(reinterpret_cast<const uint8_t*>(page.data() + batch * words), words * sizeof(int64_t),
                           kBatch);
    }
    benchmark::DoNotOptimize(accumulator.groups());
  }
  measured.done(rows.keys.size());
}

void seal_groups(benchmark::State& state) {
  Accumulator accumulator(sums_plan(), INT64_MIN / 2);
  Rows(state.range(0)).add_columns_to(accumulator);
  Arena arena = new_arena();
  const Measured measured(state);
  for (auto _ : state) {
    const Head head = read_head(seal(accumulator, arena, {Id128{}, 0, 0}));
    arena.free(head.header.arena_offset);
  }
  measured.done(static_cast<size_t>(accumulator.groups()));
}

// Eight blocks with all groups in each, as eight epochs of one window leave them; a record is a group of a block.
void merge_blocks_of(benchmark::State& state, const std::shared_ptr<const Plan>& plan) {
  constexpr size_t blocks = 8;
  Accumulator accumulator(plan, INT64_MIN / 2);
  Rows(state.range(0), *plan).add_columns_to(accumulator);
  Arena arena = new_arena();
  std::vector<Head> heads;
  for (size_t block = 0; block < blocks; ++block) heads.push_back(read_head(seal(accumulator, arena, {Id128{}, 0, 0})));
  const std::vector<int64_t> windows{0};
  const Measured measured(state);
  for (auto _ : state) {
    Merger merger(plan, windows);
    for (const Head& head : heads) merger.add(head, 0, arena.view(head.header.arena_offset, head.header.length));
    while (auto rows = merger.next(kBatch)) benchmark::DoNotOptimize(rows->rows);
  }
  measured.done(blocks * static_cast<size_t>(accumulator.groups()));
}

void merge_blocks(benchmark::State& state) { merge_blocks_of(state, sums_plan()); }

// Event times over twenty panes of a second, in order but for a second: rows of two panes alternate.
void update_panes(benchmark::State& state) {
  const auto plan = std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 1000000 0\ncolumn int64 1\ncolumn int64 1\nkey 1\n"
                  "aggregate sum 2 1\naggregate count - 0\naggregate max 2 0\n"));
  Rows rows(state.range(0));
  std::mt19937_64 random(2);
  for (int64_t& time : rows.times) time = 2 * time + static_cast<int64_t>(random() % kSecond);
  const Measured measured(state);
  for (auto _ : state) {
    Accumulator accumulator(plan, INT64_MIN / 2);
    rows.add_columns_to(accumulator);
    benchmark::DoNotOptimize(accumulator.groups());
  }
  measured.done(rows.keys.size());
}

// Windows of ten panes that slide by one, as four epochs of twenty panes leave them, 60 % of the keys in each pane; a
// record is a row of the result, of which there is one a window and key.
void merge_sliding(benchmark::State& state) {
  constexpr int64_t blocks = 4;
  constexpr int64_t panes_a_block = 20;
  const auto plan = std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 1000000 0\ncolumn int64 0\ncolumn int64 0\nkey 1\n"
                  "aggregate sum 2 1\naggregate count - 0\naggregate max 2 0\n"));
  Arena arena = new_arena();
  std::vector<Head> heads;
  Rows rows(state.range(0));
  const int64_t step = panes_a_block * kSecond / static_cast<int64_t>(rows.times.size());
  for (int64_t block = 0; block < blocks; ++block) {
    for (size_t row = 0; row < rows.times.size(); ++row) {
      rows.times[row] = block * panes_a_block * kSecond + static_cast<int64_t>(row) * step;
    }
    Accumulator accumulator(plan, INT64_MIN / 2);
    rows.add_columns_to(accumulator);
    heads.push_back(read_head(seal(accumulator, arena, {Id128{}, block, 0})));
  }
  std::vector<int64_t> windows;
  for (int64_t pane = 0; pane + 10 <= blocks * panes_a_block; ++pane) windows.push_back(pane * kSecond);
  size_t emitted = 0;
  const Measured measured(state);
  for (auto _ : state) {
    Merger merger(plan, windows);
    for (const Head& head : heads) merger.add(head, 0, arena.view(head.header.arena_offset, head.header.length));
    emitted = 0;
    while (auto batch = merger.next(state.range(1))) emitted += batch->rows;
  }
  measured.done(emitted);
}

void memory_copy(benchmark::State& state) {
  const size_t bytes = size_t{256} << 20;
  std::vector<uint8_t> from(bytes, 1), to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations() * 2);  // read and written
}

BENCHMARK_CAPTURE(update_columns, ysb_count, ysb_plan())->Arg(10'000);
BENCHMARK_CAPTURE(update_columns, sum_count_max, sums_plan())->Arg(100)->Arg(100'000)->Arg(1'000'000);
BENCHMARK_CAPTURE(update_columns, moments, moments_plan())->Arg(100'000);
BENCHMARK_CAPTURE(update_rows, ysb_count, ysb_plan())->Arg(10'000);
BENCHMARK_CAPTURE(update_rows, sum_count_max, sums_plan())->Arg(100'000);
BENCHMARK(update_panes)->Arg(100'000);
BENCHMARK(seal_groups)->Arg(100'000);
BENCHMARK(merge_blocks)->Arg(100'000);
BENCHMARK_CAPTURE(merge_blocks_of, moments, moments_plan())->Arg(100'000);
BENCHMARK(merge_sliding)->Args({100'000, 65536})->Args({100'000, 8192});
BENCHMARK(memory_copy);

}  // namespace
}  // namespace pyslash
