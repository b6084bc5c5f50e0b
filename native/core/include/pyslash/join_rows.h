// The rows of both sides of a join in, blocks of them out: by pane, and by hash prefixes of their keys.
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
class JoinRows {
 public:
  // For a plan of a join. No row is late here: whoever gives the rows has judged that by each side's own watermark.
  explicit JoinRows(std::shared_ptr<const Plan> plan);
  ~JoinRows();
  JoinRows(JoinRows&&) noexcept;
  JoinRows& operator=(JoinRows&&) noexcept;

  // As Accumulator's.
  void add_rows(const uint8_t* page, size_t bytes, size_t rows);
  void add_columns(std::span<const ColumnView> columns, size_t rows);
  void add_values(std::span<const BatchColumn> columns, size_t rows);

  const Plan& plan() const;
  int64_t rows() const;
  int64_t late_rows() const { return 0; }
  int64_t max_event_time() const { return INT64_MIN; }  // panes follow watermarks, not rows' times
  int64_t groups() const { return rows(); }

  // Writes the rows into the arena as a published block (none if there is no row), and returns its head.
  // Status::arena_full if there is no room. The rows are still there afterwards.
  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pyslash
