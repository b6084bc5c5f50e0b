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

// Immutable; share it by std::shared_ptr<const Plan>.
class Plan {
 public:
  // Status::invalid_plan says which line is wrong and why.
  static Plan parse(std::string_view text);

  const std::string& text() const { return text_; }
  uint64_t fingerprint() const { return fingerprint_; }  // hash_bytes of the text
  const Window& window() const { return window_; }

  // Input columns in row order; column 0 is the event time.
  const std::vector<Column>& columns() const { return columns_; }
  // Indexes into columns().
  const std::vector<int>& keys() const { return keys_; }
  const std::vector<std::shared_ptr<const Aggregate>>& aggregates() const { return aggregates_; }
  // State 0 is the number of rows, so a group is present iff it is not zero.
  const std::vector<StateSpec>& states() const { return states_; }
  // The states that each aggregate reads besides that, as indexes into states().
  const std::vector<std::vector<size_t>>& needs() const { return needs_; }

  // A plan of rows: its blocks hold no groups but the rows themselves, in 2^row_bits buckets of hash prefixes. It has
  // neither aggregates nor states.
  std::optional<uint32_t> row_bits() const { return row_bits_; }

  // Bytes of one UnsafeRow if every row has the same size, else 0 (a page then holds an int64 size before each row).
  size_t fixed_row_bytes() const;

 private:
  Plan() : window_(1, 1, 0) {}

  std::string text_;
  uint64_t fingerprint_ = 0;
  Window window_;
  std::vector<Column> columns_;
  std::vector<int> keys_;
  std::vector<std::shared_ptr<const Aggregate>> aggregates_;
  std::vector<StateSpec> states_;
  std::vector<std::vector<size_t>> needs_;
  std::optional<uint32_t> row_bits_;
};

}  // namespace pyslash
