// Arrow arrays into batches of columns: where the layouts agree, without a copy.
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

 private:
  void slice(const ColumnView& from, size_t begin, size_t rows, size_t column, BatchColumn& out);

  std::vector<std::vector<uint8_t>> values_;
  std::vector<std::vector<uint8_t>> valid_;
  Batch batch_;
};

}  // namespace pyslash
