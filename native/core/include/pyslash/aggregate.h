// An aggregate function: which states it needs and how its result follows from them. One file of src/aggregates/ each,
// with the states that no other one needs; a new one is such a file and its line in the table of
// src/aggregates/table.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "pyslash/column.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"

namespace pyslash {

class Aggregate {
 public:
  virtual ~Aggregate() = default;
  virtual Type result_type() const = 0;
  virtual bool result_nullable() const = 0;
  // Results of the groups, in their order, into `out` (replaced). Every group must hold a row.
  // Status::arithmetic_overflow if the plan asks for ANSI arithmetic, where Spark's own is an error.
  virtual void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const = 0;
};

// Collects the states of a plan while its aggregates are made.
class StateRequests {
 public:
  StateRequests(const std::vector<Column>& columns, std::vector<StateSpec>& states);
  // Index of the state, which is added if no aggregate asked for it before.
  size_t need(const StateKind& kind, std::vector<int> columns);
  // All that were asked for here, in order.
  const std::vector<size_t>& needed() const { return needed_; }

 private:
  const std::vector<Column>& columns_;
  std::vector<StateSpec>& states_;
  std::vector<size_t> needed_;
};

struct AggregateInput {
  int column;
  Column of;  // that column's type
};

// How many of a group's rows have a value in a column.
class ValueCount {
 public:
  ValueCount() = default;  // of no column: all rows
  ValueCount(const AggregateInput& input, StateRequests& states);
  bool nullable() const { return nulls_ != 0; }

  // The counts of a set of states, by group.
  class Counts {
   public:
    Counts(const int64_t* rows, const int64_t* nulls) : rows_(rows), nulls_(nulls) {}
    int64_t operator[](uint32_t group) const {
      // Modulo 2^64: a forged block may say anything.
      return nulls_ == nullptr ? rows_[group] : static_cast<int64_t>(uint64_t(rows_[group]) - uint64_t(nulls_[group]));
    }

   private:
    const int64_t* rows_;
    const int64_t* nulls_;  // null: the column has none
  };
  Counts of(const StateSet& states) const;

 private:
  size_t nulls_ = 0;  // 0 is the `rows` state: there are no nulls
};

// An aggregate as the plan's text has it.
struct AggregateCall {
  std::string_view function;
  std::vector<AggregateInput> inputs;  // none: as in count(*)
  bool ansi = false;                   // an overflow is an error
  std::string_view parameter;          // of the function, or empty

  const AggregateInput& input() const { return inputs[0]; }
  std::vector<int> columns() const;
};

// Status::invalid_plan if there is no such function, or none over such columns.
std::shared_ptr<const Aggregate> make_aggregate(const AggregateCall& call, StateRequests& states);

}  // namespace pyslash
