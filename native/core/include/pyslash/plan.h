// What a query computes: window, input columns, keys, aggregates. Parsed from the text that the driver sends with every
// task; docs/block-format.md has its grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pyslash/types.h"
#include "pyslash/window.h"

namespace pyslash {

class Aggregate;
struct StateKind;

struct Column {
  Type type;
  bool nullable = true;

  bool operator==(const Column&) const = default;
};

// One of the states that groups keep; every aggregate's result follows from some of them. A state that two aggregates
// need is kept once.
struct StateSpec {
  const StateKind* kind;
  std::vector<int> columns;  // indexes of the input columns; none for `rows`
  std::vector<Type> types;   // of those columns

  bool operator==(const StateSpec&) const = default;
};

// How rows make sessions: each is of [its time, its end), and those of a key that overlap or touch are one session.
struct SessionRule {
  int64_t gap_us = 0;         // from a row's time to its end; 0: column 1 has the end
  bool late_by_task = false;  // a row is late if the session is that the task's rows make of it; else by itself
};

// What only an update task is told of its fragments of sessions: the pane that they go to, and until when sessions
// were evicted before this epoch, in microseconds.
struct SessionPlace {
  int64_t pane = 0;
  int64_t evicted_us = INT64_MIN;
};

// The columns of a join's rows. Column 0, the time, says when the row's block is needed no more.
enum JoinColumn : size_t {
  join_side = 1,  // `JoinSide`
  join_expires,   // the watermark by which the row is evicted; INT64_MAX: it never is; INT64_MIN: KeptRow::passing
  join_epoch,     // in which the row came
  join_evicted,   // the watermark until which rows had been evicted by then
  join_key,       // equal bytes are equal keys
  join_row,       // the row itself
  join_columns
};

enum JoinSide : int8_t {
  left_side,
  right_side,
  left_alone,  // joins with nothing: it is of its epoch's result, and no state
  right_alone,
};

// Immutable; share it by std::shared_ptr<const Plan>.
class Plan {
 public:
  // Status::invalid_plan says which line is wrong and why.
  static Plan parse(std::string_view text);

  const std::string& text() const { return text_; }
  uint64_t fingerprint() const { return fingerprint_; }  // hash_bytes of the text
  const Window& window() const { return window_; }

  // Of a plan of sessions: its window is 1 microsecond long, so that any number is a pane.
  const std::optional<SessionRule>& session() const { return session_; }
  // Not part of the text: it differs from epoch to epoch.
  const SessionPlace& place() const { return place_; }

  // Input columns in row order; column 0 is the event time.
  const std::vector<Column>& columns() const { return columns_; }
  // Indexes into columns().
  const std::vector<int>& keys() const { return keys_; }
  const std::vector<std::shared_ptr<const Aggregate>>& aggregates() const { return aggregates_; }
  // State 0 is the number of rows, so a group is present iff it is not zero.
  const std::vector<StateSpec>& states() const { return states_; }
  // The states that each aggregate reads besides that, as indexes into states().
  const std::vector<std::vector<size_t>>& needs() const { return needs_; }

  // The event time is one of the keys, and panes hold many of its moments. A row is late by its own time, not by its
  // window's end; one without a time is never late, and is of the moment `timeless`.
  bool of_moments() const { return of_moments_; }
  static constexpr int64_t timeless = 253'402'214'400'000'000;  // the last day of the year 9999

  // A deduplication, which is of moments: of a group, which is the rows of a key, one row is wanted, in the epoch in
  // which the first ones come.
  bool deduplicates() const { return deduplicates_; }

  // The rows of both sides of a join, kept by pane: a plan of rows whose columns are those of `JoinColumn`.
  bool joins() const { return joins_; }

  // A plan of rows: its blocks hold no groups but the rows themselves, in 2^row_bits buckets of hash prefixes, or of a
  // join in as many as its rows need. It has neither aggregates nor states.
  std::optional<uint32_t> row_bits() const { return row_bits_; }

  // Bytes of one UnsafeRow if every row has the same size, else 0 (a page then holds an int64 size before each row).
  size_t fixed_row_bytes() const;

 private:
  Plan() : window_(1, 1, 0) {}

  std::string text_;
  uint64_t fingerprint_ = 0;
  Window window_;
  std::optional<SessionRule> session_;
  SessionPlace place_;
  std::vector<Column> columns_;
  std::vector<int> keys_;
  std::vector<std::shared_ptr<const Aggregate>> aggregates_;
  std::vector<StateSpec> states_;
  std::vector<std::vector<size_t>> needs_;
  bool of_moments_ = false;
  bool deduplicates_ = false;
  bool joins_ = false;
  std::optional<uint32_t> row_bits_;
};

}  // namespace pyslash
