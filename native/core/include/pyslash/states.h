// The states of groups, one column a state, indexed by dense group id.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash {

// Where a row stands among all rows of a query: what an aggregate goes by whose result depends on their order.
struct Position {
  int64_t epoch = 0;
  int64_t row = 0;  // its number in the task, from partition_rows * partition on

  auto operator<=>(const Position&) const = default;
};

// No task reads more rows than this.
inline constexpr int64_t partition_rows = int64_t{1} << 40;

// Rows of a batch as a state takes them.
struct StateInput {
  std::span<const BatchColumn> columns;  // those of the state, in order
  Position first;                        // of the first row; the others follow it
};

// Every state has an identity (combining with it changes nothing) and is combined associatively and commutatively, but
// for the rounding of floats.
class StateColumn {
 public:
  virtual ~StateColumn() = default;

  // Groups there are. New groups hold the identity; fewer groups forget the last ones.
  virtual void resize(size_t groups) = 0;
  virtual size_t size() const = 0;

  // Adds row i of a batch to groups[i].
  virtual void update(const StateInput& input, const uint32_t* groups, size_t rows) = 0;

  // this[first + i] (+)= source[source_first + i], i < count. `source` is a column of the same state, maybe this one.
  virtual void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) = 0;
  // this[groups[i]] (+)= row i of a segment. `buffers` are this state's, checked by SegmentReader.
  virtual void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) = 0;

  // Segment buffers: their number, their exact lengths for the given groups (unpadded; 0 says absent), their contents.
  virtual size_t buffers() const = 0;
  virtual void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const = 0;
  virtual void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const = 0;
  // Whether buffers of these lengths (and offsets, where it has such) can be this state's of `rows` groups.
  virtual bool fits(std::span<const Bytes> buffers, size_t rows) const = 0;

  // Those of its buffers that are offsets into another one: a reader keeps a copy of what it has checked of them.
  virtual std::vector<size_t> offset_buffers() const { return {}; }

  // Bytes of the groups' strings or binaries, where the state has such.
  virtual uint64_t variable_bytes(std::span<const uint32_t>) const { return 0; }
};

// A kind of state. Those that several functions share are here; another one stands in the file of its function.
struct StateKind {
  std::string_view name;  // docs/block-format.md
  // A column for groups; `types` are those of the input columns.
  std::unique_ptr<StateColumn> (*make)(std::span<const Type> types);
};

extern const StateKind rows_state;   // number of rows
extern const StateKind nulls_state;  // number of rows whose column is null: count(column) = rows - nulls
extern const StateKind add_state;    // exact sum of integers and decimals; float64 sum of floats
extern const StateKind min_state;
extern const StateKind max_state;
extern const StateKind session_state;  // bounds of a session, of plans of sessions only

// Its place among the states of such a plan.
inline constexpr size_t session_state_index = 1;

// The state's buffers (as `StateColumn::write` has them) for groups that have seen no row.
std::vector<std::vector<uint8_t>> nothing_seen(const StateSpec& spec, size_t groups);

// All states of a plan.
class StateSet {
 public:
  explicit StateSet(const Plan& plan);

  size_t size() const { return columns_.size(); }
  StateColumn& operator[](size_t state) { return *columns_[state]; }
  const StateColumn& operator[](size_t state) const { return *columns_[state]; }

  size_t groups() const { return columns_[0]->size(); }
  void resize(size_t groups);
  // All groups back to the identity, e.g. before a next partition of a merge.
  void reset(size_t groups);
  void combine(size_t first, const StateSet& source, size_t source_first, size_t count);
  // Number of rows that each group holds: zero iff it is absent.
  const std::vector<int64_t>& rows() const;

 private:
  std::vector<std::unique_ptr<StateColumn>> columns_;
};

// What aggregates read of states when they finish.
class CountState : public StateColumn {
 public:
  // By group.
  const std::vector<int64_t>& counts() const { return counts_; }

 protected:
  std::vector<int64_t> counts_;
};

// Exact sum of integers and decimals: low + high * 2^64 (types of 8 bytes) or low + high * 2^128 (decimals of more than
// 18 digits). `high` moves only when an addition overflows, so it costs nothing and order cannot change the result.
struct ExactSum {
  int128_t low;
  int64_t high;  // zero whenever the sum fits 128 bits
};
class ExactSumState : public StateColumn {
 public:
  virtual ExactSum sum(uint32_t group) const = 0;
  // By group, where every sum fits 64 bits and is kept in as many; else null.
  virtual const int64_t* longs() const = 0;
};

class FloatSumState : public StateColumn {
 public:
  // By group.
  const std::vector<double>& sums() const { return sums_; }

 protected:
  std::vector<double> sums_;
};

// States that are a result: min and max, for example.
class ValueState : public StateColumn {
 public:
  // Values of the groups into out.values (and out.offsets); of groups without a value: unspecified, but defined.
  virtual void gather(std::span<const uint32_t> groups, ResultColumn& out) const = 0;
};

}  // namespace pyslash
