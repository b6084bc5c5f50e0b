// Late merge beside repartitioning, on the same kernels, blocks and checksums, with all rows in native memory: one
// window of rows that several executors have each a part of, from the rows to the window's result.
//
//     merge         update and seal at each executor | merge of a range of prefixes at each owner
//     repartition   partition and seal at each executor | aggregate a range and seal at each owner, then its window
//
// Everything runs on one core, so cycles are work and not waiting. What owners read of blocks is counted: of that,
// (executors - 1) / executors would cross the network, at no cost to a CPU where that is RDMA.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/merge.h"
#include "pyslash/plan.h"
#include "pyslash/row_partitioner.h"
#include "pyslash/seal.h"
#include "rows.h"

namespace pyslash {
namespace {

constexpr BlockIdentity identity{};
constexpr uint64_t all_prefixes = uint64_t{1} << 32;

// What the two halves of a strategy cost, summed over iterations.
struct Cost {
  double first = 0;   // CPU seconds until blocks are published
  double second = 0;  // and from there to the result
  uint64_t bytes = 0;
  size_t rows = 0;  // of results
};

class Executors {
 public:
  Executors(std::shared_ptr<const Plan> plan, size_t count, const Rows& rows)
      : plan_(std::move(plan)), count_(count), rows_(rows), arena_(new_arena()) {
    const std::string text = plan_->text().substr(0, plan_->text().find("aggregate "));
    uint32_t bits = 2;  // four buckets an owner, as the driver has it
    while (size_t{1} << bits < 4 * count_) ++bits;
    of_rows_ = std::make_shared<const Plan>(Plan::parse(text + "rows " + std::to_string(bits) + "\n"));
  }

  void merge_late(Cost& cost) {
    std::vector<Head> blocks;
    timed(cost.first, [&] {
      for (size_t i = 0; i < count_; ++i) {
        Accumulator accumulator(plan_, INT64_MIN / 2);
        add_part(accumulator, i);
        blocks.push_back(read_head(seal(accumulator, arena_, identity)));
      }
    });
    timed(cost.second, [&] {
      for (size_t owner = 0; owner < count_; ++owner) emit(blocks, owner, cost.bytes, cost.rows);
    });
    free(blocks);
  }

  void repartition(Cost& cost) {
    std::vector<Head> scattered, owned;
    timed(cost.first, [&] {
      for (size_t i = 0; i < count_; ++i) {
        RowPartitioner partitioner(of_rows_);
        add_part(partitioner, i);
        scattered.push_back(read_head(partitioner.seal(arena_, identity)));
      }
    });
    timed(cost.second, [&] {
      uint64_t at_home = 0;  // an owner's window is of its own block
      for (size_t owner = 0; owner < count_; ++owner) {
        Accumulator accumulator(plan_, INT64_MIN / 2);
        for (const Head& head : scattered) {
          each_range(head, 0, 1, owner, cost.bytes,
                     [&](uint64_t offset, Bytes bytes) { accumulator.add_block(head, offset, bytes); });
        }
        const std::vector<Head> own{read_head(seal(accumulator, arena_, identity))};
        emit(own, owner, at_home, cost.rows);
        owned.push_back(own[0]);
      }
    });
    free(scattered);
    free(owned);
  }

 private:
  template <typename Work>
  static void timed(double& seconds, Work&& work) {
    const double began = cpu_seconds();
    work();
    seconds += cpu_seconds() - began;
  }

  template <typename Into>
  void add_part(Into& into, size_t executor) const {
    rows_.add_columns_to(into, executor * kBatches / count_, (executor + 1) * kBatches / count_);
  }

  template <typename Use>
  void each_range(const Head& head, int64_t pane_lo, int64_t pane_hi, size_t owner, uint64_t& bytes, Use&& use) const {
    const uint64_t lo = owner * all_prefixes / count_;
    for (const ByteRange& range : ranges(head, pane_lo, pane_hi, lo, (owner + 1) * all_prefixes / count_)) {
      bytes += range.length;
      use(range.offset, arena_.view(head.header.arena_offset + range.offset, range.length));
    }
  }

  void emit(const std::vector<Head>& blocks, size_t owner, uint64_t& bytes, size_t& rows) const {
    const std::vector<int64_t> windows{0};
    const uint64_t lo = owner * all_prefixes / count_;
    Merger merger(plan_, windows, lo, (owner + 1) * all_prefixes / count_);
    for (const Head& head : blocks) {
      each_range(head, 0, 10 * kSecond, owner, bytes,
                 [&](uint64_t offset, Bytes read) { merger.add(head, offset, read); });
    }
    while (auto batch = merger.next(kBatch)) rows += batch->rows;
  }

  void free(const std::vector<Head>& blocks) {
    for (const Head& head : blocks) arena_.free(head.header.arena_offset);
  }

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Plan> of_rows_;
  size_t count_;
  const Rows& rows_;
  Arena arena_;
};

// Arguments: distinct keys, executors.
void strategy(benchmark::State& state, const std::shared_ptr<const Plan>& plan, void (Executors::*run)(Cost&)) {
  const Rows rows(state.range(0));
  Executors executors(plan, static_cast<size_t>(state.range(1)), rows);
  Cost cost;
  for (auto _ : state) (executors.*run)(cost);
  const double records = static_cast<double>(rows.keys.size()) * static_cast<double>(state.iterations());
  const auto per_record = [&](double seconds) {
    return seconds * benchmark::CPUInfo::Get().cycles_per_second / records;
  };
  state.counters["cycles/record"] = per_record(cost.first + cost.second);
  state.counters["until sealed"] = per_record(cost.first);
  state.counters["to result"] = per_record(cost.second);
  state.counters["bytes/record"] = static_cast<double>(cost.bytes) / records;
  Accumulator expected(plan, INT64_MIN / 2);
  rows.add_columns_to(expected);
  if (cost.rows != static_cast<size_t>(expected.groups()) * static_cast<size_t>(state.iterations())) {
    state.SkipWithError("the window has not one row a key");
  }
}

BENCHMARK_CAPTURE(strategy, ysb_merge, ysb_plan(), &Executors::merge_late)->Args({10'000, 2})->Args({10'000, 16});
BENCHMARK_CAPTURE(strategy, ysb_repartition, ysb_plan(), &Executors::repartition)
    ->Args({10'000, 2})
    ->Args({10'000, 16});
BENCHMARK_CAPTURE(strategy, sums_merge, sums_plan(), &Executors::merge_late)->Args({100'000, 2})->Args({1'000'000, 2});
BENCHMARK_CAPTURE(strategy, sums_repartition, sums_plan(), &Executors::repartition)
    ->Args({100'000, 2})
    ->Args({1'000'000, 2});

}  // namespace
}  // namespace pyslash
