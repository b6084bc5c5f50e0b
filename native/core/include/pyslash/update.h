// The rows of an update task in the form that its plan asks for: groups of an Accumulator, buckets of a RowPartitioner,
// or the rows of a join. Both faces of the core take rows through this.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "pyslash/accumulator.h"
#include "pyslash/error.h"
#include "pyslash/join_rows.h"
#include "pyslash/row_partitioner.h"
#include "pyslash/seal.h"

namespace pyslash {

class Update {
 public:
  // `epoch` and `partition` say which rows a task's rows follow.
  Update(std::shared_ptr<const Plan> plan, int64_t watermark_us, int64_t epoch = 0, int64_t partition = 0)
      : form_(form_of(std::move(plan), watermark_us, {epoch, partition * partition_rows})) {}

  void add_rows(const uint8_t* page, size_t bytes, size_t rows) {
    std::visit([&](auto& form) { form.add_rows(page, bytes, rows); }, form_);
  }
  void add_columns(std::span<const ColumnView> columns, size_t rows) {
    std::visit([&](auto& form) { form.add_columns(columns, rows); }, form_);
  }
  void add_values(std::span<const BatchColumn> columns, size_t rows) {
    std::visit([&](auto& form) { form.add_values(columns, rows); }, form_);
  }
  // Accumulator's; Status::invalid_plan under a plan of rows.
  void add_block(const Head& head, uint64_t offset, Bytes bytes) {
    auto* accumulator = std::get_if<Accumulator>(&form_);
    if (accumulator == nullptr) throw Error(Status::invalid_plan, "a plan of rows has nothing to aggregate");
    accumulator->add_block(head, offset, bytes);
  }

  const Plan& plan() const {
    return std::visit([](const auto& form) -> const Plan& { return form.plan(); }, form_);
  }
  int64_t rows() const {
    return std::visit([](const auto& form) { return form.rows(); }, form_);
  }
  int64_t late_rows() const {
    return std::visit([](const auto& form) { return form.late_rows(); }, form_);
  }
  int64_t max_event_time() const {
    return std::visit([](const auto& form) { return form.max_event_time(); }, form_);
  }
  // (pane, key) pairs; rows under a plan of rows.
  int64_t groups() const {
    return std::visit([](const auto& form) { return form.groups(); }, form_);
  }

  // The head of the published block: the task's receipt. Status::arena_full if there is no room.
  std::vector<uint8_t> seal(Arena& arena, const BlockIdentity& identity) const {
    if (const auto* accumulator = std::get_if<Accumulator>(&form_)) {
      return pyslash::seal(*accumulator, arena, identity);
    }
    if (const auto* join = std::get_if<JoinRows>(&form_)) return join->seal(arena, identity);
    return std::get<RowPartitioner>(form_).seal(arena, identity);
  }

 private:
  using Form = std::variant<Accumulator, RowPartitioner, JoinRows>;
  static Form form_of(std::shared_ptr<const Plan> plan, int64_t watermark_us, Position first) {
    if (plan->joins()) return JoinRows(std::move(plan));
    if (plan->row_bits()) return RowPartitioner(std::move(plan));
    return Accumulator(std::move(plan), watermark_us, first);
  }

  Form form_;
};

}  // namespace pyslash
