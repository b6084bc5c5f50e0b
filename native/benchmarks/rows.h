// What the benchmarks share: plans, rows, an arena, and cycles a record.
#pragma once

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "pyslash/arena.h"
#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash {

inline constexpr size_t kBatch = 1 << 16;  // rows of a batch as Parquet readers give them
inline constexpr size_t kBatches = 32;
inline constexpr int64_t kSecond = 1'000'000;
inline constexpr size_t kArena = size_t{1} << 30;

inline std::shared_ptr<const Plan> ysb_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 10000000 0\ncolumn int64 1\nkey 1\naggregate count - 0\n"));
}

inline std::shared_ptr<const Plan> sums_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 10000000 0\ncolumn int64 1\ncolumn int64 1\nkey 1\n"
                  "aggregate sum 2 1\naggregate count - 0\naggregate max 2 0\n"));
}

inline std::shared_ptr<const Plan> moments_plan() {
  return std::make_shared<const Plan>(
      Plan::parse("pyslash-plan 1\nwindow 10000000 10000000 0\ncolumn int64 1\ncolumn float64 1\nkey 1\n"
                  "aggregate stddev_samp 2 0\naggregate kurtosis 2 0\naggregate corr 2,2 0\n"));
}

// Event times that advance by ten seconds in all, uniform keys, values of 20 bits.
struct Rows {
  std::vector<int64_t> times, keys, values;

  // Values are those of the plan's type, int64 or float64.
  Rows(int64_t distinct, const Plan& plan) : Rows(distinct) {
    if (plan.columns().back().type.id != TypeId::float64) return;
    for (int64_t& value : values) value = std::bit_cast<int64_t>(static_cast<double>(value));
  }

  explicit Rows(int64_t distinct) {
    std::mt19937_64 random(1);
    const size_t rows = kBatch * kBatches;
    for (size_t row = 0; row < rows; ++row) {
      times.push_back(static_cast<int64_t>(row) * 10 * kSecond / static_cast<int64_t>(rows));
      keys.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(distinct)));
      values.push_back(static_cast<int64_t>(random() >> 44));
    }
  }

  // Batches [first, end) into an Accumulator or a RowPartitioner.
  template <typename Into>
  void add_columns_to(Into& into, size_t first = 0, size_t end = kBatches) const {
    const Plan& plan = into.plan();
    const std::vector<int64_t>* all[] = {&times, &keys, &values};
    for (size_t batch = first; batch < end; ++batch) {
      std::vector<ColumnView> columns(plan.columns().size());
      for (size_t i = 0; i < columns.size(); ++i) {
        columns[i].type = plan.columns()[i].type;
        columns[i].values = reinterpret_cast<const uint8_t*>(all[i]->data() + batch * kBatch);
      }
      into.add_columns(columns, kBatch);
    }
  }
};

inline Arena new_arena() {
  const int handle = memfd_create("benchmark", MFD_CLOEXEC);
  Arena arena = Arena::create(handle, kArena, Id128{});
  close(handle);
  return arena;
}

// CPU time of this process.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// CPU time from here on; the counters of a benchmark at its end.
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
  benchmark::State& state_;
  double began_;
};

}  // namespace pyslash
