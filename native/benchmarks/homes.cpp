// Update mode: what an epoch costs that emits the groups which its rows have touched, with their values so far.
//
//     fold      a home holds a table of all open groups; the epoch's block is merged into it
//     probe     no table: the epoch's groups make one, and each open group of the live blocks is looked up in it
//     rebuild   what a home does that has lost its table: all live blocks into a new one
//
// One block holds the open groups, as a compaction leaves it, another one the epoch's. Everything runs on one core,
// from the bytes of the blocks to the columns of the result.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/aggregate.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/hash.h"
#include "pyslash/key_codec.h"
#include "pyslash/key_table.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"
#include "pyslash/segment.h"
#include "rows.h"

namespace pyslash {
namespace {

constexpr BlockIdentity identity{};
constexpr size_t piece_rows = 8192;
constexpr uint32_t ignored = 0;  // the group of what nobody asked for

// One block of `count` groups: keys 0, step, 2 * step and so on, a row each.
Head sealed(Arena& arena, const std::shared_ptr<const Plan>& plan, size_t count, size_t step) {
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
  return read_head(seal(accumulator, arena, identity));
}

// Groups of blocks, and their rows as results.
class Groups {
 public:
  explicit Groups(const std::shared_ptr<const Plan>& plan, uint32_t bits = 0)
      : plan_(plan),
        bits_(bits),
        codec_(*plan),
        keys_(codec_),
        states_(*plan),
        reader_(*plan),
        tables_(size_t{1} << bits) {
    keys_.append_unreachable();
  }

  // Merges a segment's groups, new ones too; their ids are in touched() then.
  void fold(const SegmentEntry& entry, Bytes bytes) {
    const size_t rows = open(entry, bytes);
    if (bits_ <= entry.prefix_bits) {
      table(encoded_.hashes[0]).find_or_insert(encoded_, rows, keys_, groups_.data());
    } else {
      by_table(rows);
      for (size_t at = 0; at < rows;) {
        size_t end = at;
        KeyTable& first = table(encoded_.hashes[order_[at]]);
        while (end < rows && &table(encoded_.hashes[order_[end]]) == &first) ++end;
        first.find_or_insert(encoded_, std::span(order_).subspan(at, end - at), keys_, groups_.data());
        at = end;
      }
    }
    merge(rows);
    touched_.insert(touched_.end(), groups_.begin(), groups_.end());
  }

  // Merges those of a segment's groups that are here already.
  void probe(const SegmentEntry& entry, Bytes bytes) {
    const size_t rows = open(entry, bytes);
    tables_[0].find(encoded_, rows, keys_, groups_.data());
    for (uint32_t& group : groups_) group = group == KeyTable::absent ? ignored : group;
    merge(rows);
  }

  // Results of touched(), which is empty then; how many input rows they have counted.
  int64_t emit() {
    std::vector<ResultColumn> keys(codec_.keys().size());
    ResultColumn result;
    int64_t counted = 0;
    for (size_t at = 0; at < touched_.size(); at += piece_rows) {
      const std::span<const uint32_t> piece =
          std::span(touched_).subspan(at, std::min(piece_rows, touched_.size() - at));
      keys_.decode(piece, keys);
      for (const auto& aggregate : plan_->aggregates()) aggregate->finish(states_, piece, result);
      for (const uint32_t group : piece) counted += states_.rows()[group];
    }
    touched_.clear();
    return counted;
  }

  void clear() {
    for (KeyTable& table : tables_) table.clear();
    keys_.clear();
    keys_.append_unreachable();
    states_.reset(0);
  }

 private:
  size_t open(const SegmentEntry& entry, Bytes bytes) {
    reader_.open(entry, bytes);
    codec_.encode(reader_.keys(), reader_.rows(), encoded_);
    groups_.resize(reader_.rows());
    return reader_.rows();
  }
  void merge(size_t rows) {
    states_.resize(keys_.size());
    for (size_t i = 0; i < states_.size(); ++i) states_[i].merge(reader_.state(i), groups_.data(), rows);
  }
  KeyTable& table(uint64_t hash) { return tables_[bits_ == 0 ? 0 : prefix_of(hash) >> (32 - bits_)]; }
  void by_table(size_t rows) {
    order_.resize(rows);
    std::iota(order_.begin(), order_.end(), 0U);
    std::ranges::sort(order_, {}, [this](uint32_t row) { return prefix_of(encoded_.hashes[row]); });
  }

  std::shared_ptr<const Plan> plan_;
  uint32_t bits_;
  KeyCodec codec_;
  GroupKeys keys_;
  StateSet states_;
  SegmentReader reader_;
  std::vector<KeyTable> tables_;
  EncodedKeys encoded_;
  std::vector<uint32_t> groups_, order_, touched_;
};

class Blocks {
 public:
  // `touched` of `open` groups.
  Blocks(size_t touched, size_t open)
      : plan(sums_plan()),
        arena_(new_arena()),
        base(sealed(arena_, plan, open, 1)),
        delta(sealed(arena_, plan, touched, open / touched)) {}

  Bytes bytes(const Head& head, const SegmentEntry& entry) const {
    return arena_.view(head.header.arena_offset + entry.offset, entry.length);
  }
  template <typename Use>
  void each(const Head& head, Use&& use) const {
    for (const SegmentEntry& entry : head.segments) use(entry, bytes(head, entry));
  }

  std::shared_ptr<const Plan> plan;

 private:
  Arena arena_;

 public:
  Head base, delta;
};

void report(benchmark::State& state, double began, int64_t counted) {
  const auto epochs = static_cast<double>(state.iterations());
  state.counters["ms/epoch"] = (cpu_seconds() - began) / epochs * 1e3;
  benchmark::DoNotOptimize(counted);
}

// Arguments of each: groups touched, groups open.
void fold(benchmark::State& state) {
  const Blocks blocks(static_cast<size_t>(state.range(0)), static_cast<size_t>(state.range(1)));
  Groups home(blocks.plan, blocks.base.segments[0].prefix_bits);
  blocks.each(blocks.base, [&](const SegmentEntry& entry, Bytes bytes) { home.fold(entry, bytes); });
  home.emit();
  int64_t counted = 0;
  const double began = cpu_seconds();
  for (auto _ : state) {
    blocks.each(blocks.delta, [&](const SegmentEntry& entry, Bytes bytes) { home.fold(entry, bytes); });
    counted = home.emit();
  }
  report(state, began, counted);
  if (counted != state.range(0) * (state.iterations() + 1)) state.SkipWithError("the home has not counted every row");
}

void probe(benchmark::State& state) {
  const Blocks blocks(static_cast<size_t>(state.range(0)), static_cast<size_t>(state.range(1)));
  Groups groups(blocks.plan);
  int64_t counted = 0;
  const double began = cpu_seconds();
  for (auto _ : state) {
    counted = 0;
    size_t next = 0;  // base segments are by prefix, as those of the epoch are
    for (const SegmentEntry& entry : blocks.delta.segments) {
      groups.clear();
      groups.fold(entry, blocks.bytes(blocks.delta, entry));
      while (next < blocks.base.segments.size() && blocks.base.segments[next].prefix_lo < entry.prefix_hi()) {
        groups.probe(blocks.base.segments[next], blocks.bytes(blocks.base, blocks.base.segments[next]));
        ++next;
      }
      counted += groups.emit();
    }
  }
  report(state, began, counted);
  if (counted != 2 * state.range(0)) state.SkipWithError("a group has not met its row of the base");
}

void rebuild(benchmark::State& state) {
  const Blocks blocks(static_cast<size_t>(state.range(0)), static_cast<size_t>(state.range(1)));
  const double began = cpu_seconds();
  for (auto _ : state) {
    Groups home(blocks.plan, blocks.base.segments[0].prefix_bits);
    blocks.each(blocks.base, [&](const SegmentEntry& entry, Bytes bytes) { home.fold(entry, bytes); });
    benchmark::DoNotOptimize(home);
  }
  report(state, began, 0);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kMillisecond);
  for (const int64_t open : {100'000, 1'000'000, 5'000'000}) {
    for (const int64_t touched : {int64_t{1000}, open / 10, open}) benchmark->Args({touched, open});
  }
}

BENCHMARK(fold)->Apply(sizes);
BENCHMARK(probe)->Apply(sizes);
BENCHMARK(rebuild)
    ->Unit(benchmark::kMillisecond)
    ->Args({1000, 100'000})
    ->Args({1000, 1'000'000})
    ->Args({1000, 5'000'000});

}  // namespace
}  // namespace pyslash
