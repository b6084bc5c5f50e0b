// Groups as rows of record batches: window start and end, keys, results of the aggregates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/column.h"
#include "pyslash/group_keys.h"
#include "pyslash/plan.h"
#include "pyslash/record_batch.h"
#include "pyslash/states.h"

namespace pyslash {

class SessionTable;

class RowWriter {
 public:
  // The plan must outlive it.
  explicit RowWriter(const Plan& plan);

  // An empty batch, with the memory that the last one took.
  RecordBatch begin();
  // Appends the first of these groups of the window that starts at `window` (sessions know their own); how many. Not
  // all of them where the batch has `max_rows` rows then, or the work has reached a size that is best handed over; none
  // if the batch has no room for the bytes of another one. Status::arithmetic_overflow under ANSI rules.
  // The states begin with that of the group `first_state`.
  size_t append(RecordBatch& batch, int64_t window, const GroupKeys& keys, const StateSet& states,
                std::span<const uint32_t> groups, size_t max_rows, uint32_t first_state = 0);
  // As many of these sessions as the batch takes; how many.
  size_t append_sessions(RecordBatch& batch, const SessionTable& table, std::span<const uint32_t> slots,
                         size_t max_rows);
  void end(const RecordBatch& batch);

 private:
  uint64_t longest_column(const GroupKeys& keys, const StateSet& states, std::span<const uint32_t> groups,
                          std::span<const uint32_t> of_states) const;
  bool has_room(const RecordBatch& batch) const;

  const Plan& plan_;
  std::vector<ResultField> fields_;
  std::vector<ResultColumn> pieces_;  // keys, aggregates; those of bytes are at most INT32_MAX long
  std::vector<uint32_t> shifted_;     // places of the groups' states
  std::vector<size_t> last_bytes_;    // of the values of each column of the last batch
};

}  // namespace pyslash
