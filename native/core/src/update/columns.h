// Columns into batches: of Arrow arrays without a copy where the layouts agree, of the core's own always.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/plan.h"
#include "update/batch.h"

namespace pyslash {

class ColumnReader {
 public:
  // Status::invalid_input if number or types of the columns are not the plan's.
  void read(const Plan& plan, std::span<const ColumnView> columns, size_t rows, const BatchConsumer& consume);
  void read(const Plan& plan, std::span<const BatchColumn> columns, size_t rows, const BatchConsumer& consume);

 private:
  template <typename Columns, typename Slice>
  void read_slices(const Plan& plan, const Columns& columns, size_t rows, const BatchConsumer& consume, Slice&& slice);
  void slice(const ColumnView& from, size_t begin, size_t rows, size_t column, BatchColumn& out);

  std::vector<std::vector<uint8_t>> values_;
  std::vector<std::vector<uint8_t>> valid_;
  Batch batch_;
};

}  // namespace pyslash
