// The core's loops on one core: cycles a record for update, seal and merge, and the memory's bandwidth beside them.
//
// Cycles are CPU seconds times the processor's nominal frequency, as google-benchmark reads it.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/merge.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"

namespace pyslash {
namespace {

constexpr size_t kBatch = 1 << 16;  // rows of a batch as Parquet readers give them
constexpr size_t kBatches = 32;
constexpr int64_t kSecond = 1'000'000;
constexpr size_t kArena = size_t{1} << 30;

std::shared_ptr<const Plan> ysb_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 10000000 0\ncolumn int64 1\nkey 1\naggregate count - 0\n"));
}

std::shared_ptr<const Plan> sums_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 10000000 0\ncolumn int64 1\ncolumn int64 1\nkey 1\n"
                  "aggregate sum 2 1\naggregate count - 0\naggregate max 2 0\n"));
}

// Event times that advance by ten seconds in all, uniform keys, values of 20 bits.
struct Rows {
  std::vector<int64_t> times, keys, values;

  explicit Rows(int64_t distinct) {
    std::mt19937_64 random(1);
    const size_t rows = kBatch * kBatches;
    for (size_t row = 0; row < rows; ++row) {
      times.push_back(static_cast<int64_t>(row) * 10 * kSecond / static_cast<int64_t>(rows));
      keys.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(distinct)));
      values.push_back(static_cast<int64_t>(random() >> 44));
    }
  }

  void add_columns_to(Accumulator& accumulator) const {
    const Plan& plan = accumulator.plan();
    const std::vector<int64_t>* all[] = {&times, &keys, &values};
    for (size_t batch = 0; batch < kBatches; ++batch) {
      std::vector<ColumnView> columns(plan.columns().size());
      for (size_t i = 0; i < columns.size(); ++i) {
        columns[i].type = plan.columns()[i].type;
        columns[i].values = reinterpret_cast<const uint8_t*>(all[i]->data() + batch * kBatch);
      }
      accumulator.add_columns(columns, kBatch);
    }
  }
};

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

Arena new_arena() {
  const int handle = memfd_create("benchmark", MFD_CLOEXEC);
  Arena arena = Arena::create(handle, kArena, Id128{});
  close(handle);
  return arena;
}

// CPU time of this process from here on; the counters of a benchmark at its end.
class Measured {
 public:
  explicit Measured(benchmark::State& state) : state_(state), began_(cpu_seconds()) {}

  // `records` an iteration.
  void done(size_t records) const {
    const double seconds = (cpu_seconds() - began_) / static_cast<double>(state_.iterations());
    const auto count = static_cast<double>(records);
    state_.counters["cycles/record"] = seconds * benchmark::CPUInfo::Get().cycles_per_second / count;
    state_.counters["M records/s"] = count / seconds / 1e6;
  }

 private:
  static double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }

  benchmark::State& state_;
  double began_;
};

void update_columns(benchmark::State& state, const std::shared_ptr<const Plan>& plan) {
  const Rows rows(state.range(0));
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
void merge_blocks(benchmark::State& state) {
  constexpr size_t blocks = 8;
  const auto plan = sums_plan();
  Accumulator accumulator(plan, INT64_MIN / 2);
  Rows(state.range(0)).add_columns_to(accumulator);
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
BENCHMARK_CAPTURE(update_rows, ysb_count, ysb_plan())->Arg(10'000);
BENCHMARK_CAPTURE(update_rows, sum_count_max, sums_plan())->Arg(100'000);
BENCHMARK(update_panes)->Arg(100'000);
BENCHMARK(seal_groups)->Arg(100'000);
BENCHMARK(merge_blocks)->Arg(100'000);
BENCHMARK(merge_sliding)->Args({100'000, 65536})->Args({100'000, 8192});
BENCHMARK(memory_copy);

}  // namespace
}  // namespace pyslash
