// Kernels on rows as queries have them: keys are strings of 8 to 32 bytes, of millions of values, and the rows of joins
// have 300 bytes. Nanoseconds of CPU a row on one core.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/compact.h"
#include "pyslash/hash.h"
#include "pyslash/home.h"
#include "pyslash/join.h"
#include "pyslash/join_rows.h"
#include "pyslash/merge.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"
#include "rows.h"

namespace pyslash {
namespace {

constexpr uint64_t every_prefix = uint64_t{1} << 32;
constexpr size_t result_rows = 8192;

// A column of strings as Arrow has it.
struct Strings {
  std::vector<uint8_t> bytes;
  std::vector<int32_t> offsets{0};

  void append(const uint8_t* data, size_t size) {
    bytes.insert(bytes.end(), data, data + size);
    offsets.push_back(static_cast<int32_t>(bytes.size()));
  }
  // The key of this number: what tells it apart from others in its first 8 bytes.
  void append_key(uint64_t number) {
    char text[48];
    std::snprintf(text, sizeof(text), "%08x/customers/of/the/benchmarks/1",
                  static_cast<uint32_t>(number) * 0x9e3779b1U);
    append(reinterpret_cast<const uint8_t*>(text), 8 + mix64(number) % 25);
  }
  void view(ColumnView& column) const {
    column.values = bytes.data();
    column.offsets = reinterpret_cast<const uint8_t*>(offsets.data());
  }
};

// An event time, a key and a value a row; rows in the order of their times.
struct KeyedRows {
  std::vector<int64_t> times, values;
  Strings keys;

  // `next(row)` is the number of the row's key.
  template <typename Next>
  KeyedRows(size_t rows, int64_t from_us, int64_t width_us, Next&& next) {
    for (size_t row = 0; row < rows; ++row) {
      times.push_back(from_us + static_cast<int64_t>(row) * width_us / static_cast<int64_t>(rows));
      const uint64_t key = next(row);
      keys.append_key(key);
      values.push_back(static_cast<int64_t>(mix64(row * 31 + key)));
    }
  }

  void add_to(Accumulator& accumulator) const {
    for (size_t first = 0; first < times.size(); first += kBatch) {
      std::vector<ColumnView> columns(3);
      const size_t rows = std::min(kBatch, times.size() - first);
      for (size_t i = 0; i < columns.size(); ++i) {
        columns[i].type = accumulator.plan().columns()[i].type;
        columns[i].offset = static_cast<int64_t>(first);
      }
      columns[0].values = reinterpret_cast<const uint8_t*>(times.data());
      keys.view(columns[1]);
      columns[2].values = reinterpret_cast<const uint8_t*>(values.data());
      accumulator.add_columns(columns, rows);
    }
  }
};

std::shared_ptr<const Plan> plan_of(const std::string& lines) {
  return std::make_shared<const Plan>(Plan::parse("pyslash-plan 1\n" + lines));
}

// CPU time of parts of iterations, as nanoseconds a row of a counter.
class Timer {
 public:
  Timer(benchmark::State& state, const char* name, size_t rows) : state_(state), name_(name), rows_(rows) {}
  ~Timer() { state_.counters[name_] = seconds_ * 1e9 / static_cast<double>(rows_ * state_.iterations()); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  template <typename Work>
  void operator()(Work&& work) {
    const double began = cpu_seconds();
    work();
    seconds_ += cpu_seconds() - began;
  }

 private:
  benchmark::State& state_;
  const char* name_;
  size_t rows_;
  double seconds_ = 0;
};

MappedBlock mapped(const Arena& arena, const Head& head) {
  return {&head, arena.view(head.header.arena_offset, head.header.length)};
}

// Arguments: keys. As many rows as keys, twice: half of the keys that the second block has are in the first one. What
// it takes to find keys is that of rows with keys of the first block, in no order.
void groups(benchmark::State& state, const std::string& aggregates) {
  const auto plan = plan_of("window 3600000000 3600000000 0\ncolumn string 0\ncolumn int64 0\nkey 1\n" + aggregates);
  const auto keys = static_cast<size_t>(state.range(0));
  const KeyedRows rows[] = {KeyedRows(keys, 0, kSecond, [](size_t row) { return row; }),
                            KeyedRows(keys, 0, kSecond, [&](size_t row) { return (row * 2 + keys / 2) % (2 * keys); })};
  const KeyedRows again(keys, 0, kSecond, [&](size_t row) { return mix64(row) % keys; });
  Timer update(state, "update ns/row", 2 * keys), find(state, "find ns/row", keys),
      seal_them(state, "seal ns/row", 2 * keys);
  Timer merge(state, "merge ns/row", 2 * keys), compact_them(state, "compact ns/row", 2 * keys);
  const std::vector<int64_t> windows{0};
  uint64_t bytes = 0;
  for (auto _ : state) {
    Arena arena = new_arena();
    std::vector<Head> heads;
    for (const KeyedRows& some : rows) {
      Accumulator accumulator(plan, INT64_MIN / 2);
      update([&] { some.add_to(accumulator); });
      seal_them([&] { heads.push_back(read_head(seal(accumulator, arena, {{}, 1, 0}))); });
      if (&some == rows) find([&] { again.add_to(accumulator); });
    }
    bytes = heads[0].header.length + heads[1].header.length;
    merge([&] {
      Merger merger(plan, windows);
      for (const Head& head : heads) merger.add(head, 0, mapped(arena, head).bytes);
      while (const auto batch = merger.next(result_rows)) benchmark::DoNotOptimize(batch->rows);
    });
    compact_them([&] {
      const std::vector<uint64_t> offsets{heads[0].header.arena_offset, heads[1].header.arena_offset};
      compact(plan, arena, offsets, 0, {{}, 2, 0});
    });
  }
  state.counters["bytes/row"] = static_cast<double>(bytes) / static_cast<double>(2 * keys);
}

// Arguments: open sessions, blocks of an epoch. The epoch adds to each fourth one; a home has the open ones.
void sessions(benchmark::State& state) {
  const auto open = static_cast<size_t>(state.range(0)), blocks = static_cast<size_t>(state.range(1));
  const size_t touched = open / 4;
  const std::string text =
      "window 1 1 0\nsession 60000000 0\ncolumn string 0\ncolumn int64 0\nkey 1\naggregate count - 0\naggregate sum 2 "
      "0\n";
  const auto plan = plan_of(text);
  const auto placed = plan_of(text + "place 0 0\n");
  Arena arena = new_arena();
  std::vector<Head> heads;
  const auto add = [&](int64_t epoch, const KeyedRows& rows) {
    Accumulator accumulator(placed, 0);
    rows.add_to(accumulator);
    heads.push_back(read_head(seal(accumulator, arena, {{}, epoch, 0})));
  };
  for (size_t block = 0; block < blocks; ++block) {
    add(1, KeyedRows(open / blocks, kSecond, 10 * kSecond, [&](size_t row) { return row * blocks + block; }));
  }
  for (size_t block = 0; block < blocks; ++block) {
    add(2, KeyedRows(touched / blocks, 11 * kSecond, 10 * kSecond,
                     [&](size_t row) { return (row * blocks + block) * 4; }));
  }
  Timer rebuild(state, "rebuild ns/row", open), fold(state, "fold ns/row", touched);
  Timer compact_them(state, "compact ns/row", open + touched);
  for (auto _ : state) {
    std::vector<MappedBlock> live;
    for (size_t block = 0; block < blocks; ++block) live.push_back(mapped(arena, heads[block]));
    Home home(plan, 0, every_prefix);
    rebuild([&] { home.advance({"", "1", 1, 0, 0, 0}, live); });
    for (size_t block = blocks; block < 2 * blocks; ++block) live.push_back(mapped(arena, heads[block]));
    fold([&] { home.advance({"1", "2", 2, 0, 0, 0}, live); });
    if (home.groups() != open) state.SkipWithError("the wrong number of sessions");
    std::vector<uint64_t> offsets;
    for (const Head& head : heads) offsets.push_back(head.header.arena_offset);
    std::vector<uint8_t> compacted;
    compact_them([&] { compacted = compact(plan, arena, offsets, 0, {{}, 3, 0}); });
    arena.free(read_head(compacted).header.arena_offset);
  }
}

constexpr int64_t kept_epochs = 4;
constexpr size_t row_bytes = 304;
constexpr size_t most_pairs = 4096;

// Rows of both sides by turns as a task of a join gives them.
struct JoinInput {
  std::vector<int64_t> times, epochs, evicted;
  std::vector<int8_t> sides;
  Strings keys, rows;

  JoinInput(size_t count, int64_t epoch, uint64_t distinct) : times(count, kSecond), epochs(count, epoch) {
    std::mt19937_64 random(static_cast<uint64_t>(epoch) + 1);
    evicted.resize(count);
    std::vector<uint8_t> row(row_bytes, 'x');
    for (size_t i = 0; i < count; ++i) {
      sides.push_back(static_cast<int8_t>(i % 2));
      keys.append_key(random() % distinct);
      rows.append(row.data(), row.size());
    }
  }
  void add_to(JoinRows& written) const {
    const void* data[] = {times.data(), sides.data(), times.data(), epochs.data(), evicted.data(), nullptr, nullptr};
    for (size_t first = 0; first < times.size(); first += kBatch) {
      std::vector<ColumnView> columns(join_columns);
      for (size_t i = 0; i < columns.size(); ++i) {
        columns[i].type = written.plan().columns()[i].type;
        columns[i].values = static_cast<const uint8_t*>(data[i]);
        columns[i].offset = static_cast<int64_t>(first);
      }
      keys.view(columns[join_key]);
      rows.view(columns[join_row]);
      written.add_columns(columns, std::min(kBatch, times.size() - first));
    }
  }
};

// Arguments: rows of an epoch, keys. A home keeps the rows of four epochs.
void wide_join(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const auto plan = plan_of(
      "window 60000000 60000000 0\njoin\ncolumn int8 0\ncolumn int64 0\ncolumn int64 0\n"
      "column int64 0\ncolumn binary 0\ncolumn binary 0\nkey 5\nrows 0\n");
  Timer update(state, "update ns/row", rows * (kept_epochs + 1)),
      seal_them(state, "seal ns/row", rows * (kept_epochs + 1));
  Timer fold(state, "fold ns/row", rows * (kept_epochs + 1)), probe(state, "probe ns/row", rows);
  std::vector<JoinInput> inputs;
  for (int64_t epoch = 0; epoch <= kept_epochs; ++epoch) {
    inputs.emplace_back(rows, epoch, static_cast<uint64_t>(state.range(1)));
  }
  size_t found = 0;
  std::vector<RowPair> pairs;
  for (auto _ : state) {
    Arena arena = new_arena();
    JoinHome home(plan, 0, every_prefix, {}, {});
    for (int64_t epoch = 0; epoch <= kept_epochs; ++epoch) {
      JoinRows written(plan);
      std::vector<uint8_t> raw;
      update([&] { inputs[static_cast<size_t>(epoch)].add_to(written); });
      seal_them([&] { raw = written.seal(arena, {{}, epoch, 0}); });
      const Head head = read_head(raw);
      const MappedBlock block = mapped(arena, head);
      const std::string before = epoch == 0 ? "" : std::to_string(epoch - 1);
      fold([&] { home.advance({before, std::to_string(epoch), epoch, 0}, {&block, 1}); });
    }
    JoinHome::Cursor cursor;
    found = 0;
    probe([&] {
      while (home.next(cursor, most_pairs, pairs) != JoinPhase::done) found += pairs.size();
    });
  }
  state.counters["pairs"] = static_cast<double>(found);
}

constexpr const char* sums = "aggregate count - 0\naggregate sum 2 0\naggregate max 2 0\n";
BENCHMARK_CAPTURE(groups, sums, sums)->Arg(1'000'000)->Arg(5'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(groups, distinct, "aggregate approx_count_distinct 2 0 9\n")
    ->Arg(200'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(sessions)->Args({1'000'000, 1})->Args({1'000'000, 4})->Unit(benchmark::kMillisecond);
BENCHMARK(wide_join)->Args({125'000, 500'000})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pyslash
