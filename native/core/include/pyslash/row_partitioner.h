// Rows in, the same rows out in buckets of hash prefixes: what repartitioning does where an Accumulator would
// aggregate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pyslash/column.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"

namespace pyslash {

// Not safe for concurrent use. After an error it may hold a part of the batch: throw it away.
class RowPartitioner {
 public:
  // For a plan of rows. No row is late here: whoever aggregates the rows judges that.
  explicit RowPartitioner(std::shared_ptr<const Plan> plan);
  ~RowPartitioner();
  RowPartitioner(RowPartitioner&&) noexcept;
  RowPartitioner& operator=(RowPartitioner&&) noexcept;

  // As Accumulator's.
  void add_rows(const uint8_t* page, size_t bytes, size_t rows);
  void add_columns(std::span<const ColumnView> columns, size_t rows);
  void add_values(std::span<const BatchColumn> columns, size_t rows);

  const Plan& plan() const;
  int64_t rows() const;
  int64_t late_rows() const { return 0; }
  int64_t max_event_time() const;  // INT64_MIN if none
  int64_t groups() const { return rows(); }

  // Writes the rows into the arena as a published block, a segment a bucket that is not empty, all of pane 0 (none if
  // there is no row), and returns its head. Status::arena_full if there is no room; Status::invalid_input if the
  // strings of a column in one bucket exceed 2 GiB. The rows are still there afterwards.
  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
