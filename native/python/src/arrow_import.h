// Columns that another library hands over through the Arrow C data interface.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "arrow_abi.h"
#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash::python {

namespace nb = nanobind;

// A record batch (or struct array) whose children are the plan's input columns, borrowed while this object lives.
class ImportedBatch {
 public:
  // `object` has __arrow_c_array__. Status::invalid_input if its columns are not the plan's.
  ImportedBatch(const nb::object& object, const Plan& plan);

  size_t rows() const { return rows_; }
  const std::vector<ColumnView>& columns() const { return columns_; }

 private:
  nb::object capsules_;  // own the arrays
  size_t rows_ = 0;
  std::vector<ColumnView> columns_;
};

// The columns of a struct array; Status::invalid_input if they are not the plan's.
std::vector<ColumnView> view_columns(const ArrowSchema& schema, const ArrowArray& array, const Plan& plan);

}  // namespace pyslash::python
