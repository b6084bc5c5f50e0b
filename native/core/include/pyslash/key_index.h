// Rows of a table by their keys, which differ: what a join with a static table looks its rows up in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash {

class KeyIndex {
 public:
  // Its rows, and those that are looked up, have the plan's columns; the plan's keys are the keys.
  explicit KeyIndex(std::shared_ptr<const Plan> plan);
  ~KeyIndex();

  // The next rows of the table. Status::invalid_input, and the index is of no use any more, if a key has been there
  // before; also if the columns are not the plan's.
  void add(std::span<const ColumnView> columns, size_t rows);
  size_t rows() const { return rows_; }

  // found[i] = number of the table's row with the key of row i, by the order of `add`; -1 if there is none. A null
  // equals a null here, which in SQL it does not: let a table have none. One thread at a time.
  void find(std::span<const ColumnView> columns, size_t rows, std::span<int32_t> found);

  const Plan& plan() const { return *plan_; }

 private:
  struct Impl;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Impl> impl_;
  size_t rows_ = 0;
};

}  // namespace pyslash
