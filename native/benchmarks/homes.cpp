// Update mode: what an epoch costs that emits the groups which its rows have touched, with their values so far.
//
//     fold      a home holds all open groups; the epoch's block is folded into it
//     merge     no home: the live blocks are merged, the groups of the epoch's block alone
//     rebuild   a home that has nothing yet reads the live blocks
//
// One block holds the open groups, as a compaction leaves it, another one the epoch's. Everything runs on one core,
// from the bytes of the blocks to the columns of the result.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/home.h"
#include "pyslash/merge.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"
#include "rows.h"

namespace pyslash {
namespace {

constexpr uint64_t every_prefix = uint64_t{1} << 32;
constexpr size_t batch_rows = 8192;

// One block of `count` groups: keys 0, step, 2 * step and so on, a row each.
Head sealed(Arena& arena, const std::shared_ptr<const Plan>& plan, int64_t epoch, size_t count, size_t step) {
  Accumulator accumulator(plan, INT64_MIN / 2);
  const std::vector<int64_t> times(kBatch, 0), values(kBatch, 1);
  std::vector<int64_t> keys(kBatch);
  for (size_t first = 0; first < count; first += kBatch) {
    const size_t rows = std::min(kBatch, count - first);
    for (size_t i = 0; i < rows; ++i) keys[i] = static_cast<int64_t>((first + i) * step);
    std::vector<ColumnView> columns(3);
    const std::vector<int64_t>* all[] = {&times, &keys, &values};
    for (size_t i = 0; i < columns.size(); ++i) {
      columns[i].type = plan->columns()[i].type;
      columns[i].values = reinterpret_cast<const uint8_t*>(all[i]->data());
    }
    accumulator.add_columns(columns, rows);
  }
  return read_head(seal(accumulator, arena, {{}, epoch, 0}));
}

class Blocks {
 public:
  // `touched` of `open` groups.
  explicit Blocks(const benchmark::State& state)
      : plan(sums_plan()),
        arena_(new_arena()),
        touched(static_cast<size_t>(state.range(0))),
        open(static_cast<size_t>(state.range(1))),
        base_(sealed(arena_, plan, 0, open, 1)),
        delta_(sealed(arena_, plan, 1, touched, open / touched)) {}

  std::vector<MappedBlock> all() const { return {mapped(base_), mapped(delta_)}; }
  std::vector<MappedBlock> base() const { return {mapped(base_)}; }

  std::shared_ptr<const Plan> plan;

 private:
  MappedBlock mapped(const Head& head) const {
    return {&head, arena_.view(head.header.arena_offset, head.header.length)};
  }

  Arena arena_;

 public:
  size_t touched, open;

 private:
  Head base_, delta_;
};

// Reads all rows; how many there are.
template <typename Next>
size_t emitted(Next&& next) {
  size_t rows = 0;
  while (const std::optional<RecordBatch> batch = next()) rows += batch->rows;
  return rows;
}

void report(benchmark::State& state, double began, size_t rows, size_t expected) {
  state.counters["ms/epoch"] = (cpu_seconds() - began) / static_cast<double>(state.iterations()) * 1e3;
  if (rows != expected) state.SkipWithError("the wrong number of rows");
}

// Arguments of each: groups touched, groups open.
void fold(benchmark::State& state) {
  const Blocks blocks(state);
  Home home(blocks.plan, 0, every_prefix);
  home.advance({"", "0", 0, INT64_MIN / 2}, blocks.base());
  const std::vector<MappedBlock> live = blocks.all();
  size_t rows = 0;
  int64_t version = 0;
  const double began = cpu_seconds();
  for (auto _ : state) {
    const std::string before = std::to_string(version);
    home.advance({before, std::to_string(++version), 1, INT64_MIN / 2}, live);
    Home::Cursor cursor;
    rows = emitted([&] { return home.next(cursor, batch_rows); });
  }
  report(state, began, rows, blocks.touched);
}

void merge(benchmark::State& state) {
  const Blocks blocks(state);
  const std::vector<int64_t> windows{0};
  size_t rows = 0;
  const double began = cpu_seconds();
  for (auto _ : state) {
    Merger merger(blocks.plan, windows, 0, every_prefix, 1);
    for (const MappedBlock& block : blocks.all()) merger.add(*block.head, 0, block.bytes);
    rows = emitted([&] { return merger.next(batch_rows); });
  }
  report(state, began, rows, blocks.touched);
}

void rebuild(benchmark::State& state) {
  const Blocks blocks(state);
  uint64_t groups = 0;
  const double began = cpu_seconds();
  for (auto _ : state) {
    Home home(blocks.plan, 0, every_prefix);
    home.advance({"", "0", 0, INT64_MIN / 2}, blocks.base());
    groups = home.groups();
  }
  report(state, began, groups, blocks.open);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kMillisecond);
  for (const int64_t open : {100'000, 1'000'000, 5'000'000}) {
    for (const int64_t touched : {int64_t{1000}, open / 10, open}) benchmark->Args({touched, open});
  }
}

BENCHMARK(fold)->Apply(sizes);
BENCHMARK(merge)->Apply(sizes);
BENCHMARK(rebuild)
    ->Unit(benchmark::kMillisecond)
    ->Args({1000, 100'000})
    ->Args({1000, 1'000'000})
    ->Args({1000, 5'000'000});

}  // namespace
}  // namespace pyslash
