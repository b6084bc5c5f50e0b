// The update side: rows in, partial states of (pane, key) groups held until they are sealed into a block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pyslash/block.h"
#include "pyslash/column.h"
#include "pyslash/group_keys.h"
#include "pyslash/plan.h"
#include "pyslash/states.h"

namespace pyslash {

// The groups of one pane, ready to be written: `groups` are ids in `keys` and `states`.
struct PaneGroups {
  int64_t pane;  // start, microseconds
  const GroupKeys* keys;
  const StateSet* states;
  std::vector<uint32_t> groups;
};

// Not safe for concurrent use. After an error the accumulator may hold a part of the batch: throw it away.
class Accumulator {
 public:
  // Rows of windows that ended at or before the watermark are late: counted and dropped. `first` is the position of the
  // first row.
  Accumulator(std::shared_ptr<const Plan> plan, int64_t watermark_us, Position first = {});
  ~Accumulator();
  Accumulator(Accumulator&&) noexcept;
  Accumulator& operator=(Accumulator&&) noexcept;

  // Rows of a page of Spark UnsafeRows, back to back; each is preceded by its int64 size, which may be left out where
  // plan.fixed_row_bytes() says that all have the same. Status::invalid_input if the page and the plan do not agree.
  void add_rows(const uint8_t* page, size_t bytes, size_t rows);
  // Rows in Arrow layout: the event time (timestamp or timestamp_ntz), then the plan's columns.
  void add_columns(std::span<const ColumnView> columns, size_t rows);
  // The same columns as the core's own loops read them, which need no copy.
  void add_values(std::span<const BatchColumn> columns, size_t rows);
  // Rows of the segments of a RowPartitioner's block that `bytes`, which start `offset` bytes into it, hold whole.
  // Status::corrupt_block if one of them fails its checks, Status::invalid_plan if its rows are not this plan's.
  void add_block(const Head& head, uint64_t offset, Bytes bytes);

  const Plan& plan() const;
  std::shared_ptr<const Plan> shared_plan() const;
  int64_t rows() const;  // all that came in, also late ones and those without a time
  int64_t late_rows() const;
  int64_t max_event_time() const;  // INT64_MIN if none; late rows count too
  int64_t groups() const;          // (pane, key) pairs

  // Groups by pane, ascending. The pointers live as long as the accumulator is neither changed nor destroyed.
  std::vector<PaneGroups> panes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
