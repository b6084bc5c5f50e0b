// Pages of Spark UnsafeRows into batches of columns.
//
//   | null bits, 8 bytes for every 64 fields | 8 bytes a field | variable part |
//
// A field holds its value in the low bytes, or, for strings, binaries and decimals of more than 18 digits,
// offset << 32 | size of its bytes, counted from the start of the row.
#pragma once

#include <cstdint>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/plan.h"
#include "update/batch.h"

namespace pyslash {

class RowReader {
 public:
  // Status::invalid_input if the page is not `rows` rows of this plan.
  void read(const Plan& plan, Bytes page, size_t rows, const BatchConsumer& consume);

 private:
  // Where the next batch's rows are, each behind its size.
  void find_rows(const Plan& plan, Bytes page, size_t& at);
  template <typename Rows>
  void gather(const Plan& plan, const Rows& rows);
  void gather_variable(const Plan& plan, size_t field, const BatchColumn& column, std::vector<uint8_t>& values);

  std::vector<const uint8_t*> rows_;
  std::vector<size_t> sizes_;
  std::vector<std::vector<uint8_t>> values_;
  std::vector<std::vector<uint8_t>> valid_;
  Batch batch_;
};

}  // namespace pyslash
