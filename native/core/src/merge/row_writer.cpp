#include "row_writer.h"

#include <algorithm>

#include "pyslash/aggregate.h"
#include "sessions/session_table.h"
#include "states/session_bounds.h"

namespace pyslash {
namespace {

constexpr size_t piece_rows = 8192;
// Of one column. Results may be many times as long as what blocks have of them: registers are.
constexpr uint64_t piece_bytes = uint64_t{8} << 20;
constexpr size_t batch_bytes = size_t{16} << 20;  // with more of them, a batch is best handed over

}  // namespace

RowWriter::RowWriter(const Plan& plan) : plan_(plan), fields_(result_fields(plan)), last_bytes_(fields_.size()) {
  for (size_t i = 2; i < fields_.size(); ++i) pieces_.emplace_back().type = fields_[i].type;
}

RecordBatch RowWriter::begin() {
  RecordBatch batch;
  for (size_t i = 0; i < fields_.size(); ++i) {
    batch.columns.emplace_back(fields_[i].type).values.reserve(last_bytes_[i]);  // most batches are alike
  }
  return batch;
}

size_t RowWriter::append(RecordBatch& batch, int64_t window, const GroupKeys& keys, const StateSet& states,
                         std::span<const uint32_t> groups, size_t max_rows, uint32_t first_state) {
  const auto is_long = [](const ArrowColumn& column) { return column.values.size() >= batch_bytes; };
  if (batch.rows != 0 && std::ranges::any_of(batch.columns, is_long)) return 0;
  size_t rows = std::min({max_rows - batch.rows, groups.size(), piece_rows});
  std::span<const uint32_t> of_states = groups.first(rows);
  if (first_state != 0) {
    shifted_.assign(of_states.begin(), of_states.end());
    for (uint32_t& group : shifted_) group -= first_state;
    of_states = shifted_;
  }
  while (rows > 1 && longest_column(keys, states, groups.first(rows), of_states.first(rows)) > piece_bytes) rows /= 2;
  const std::span<const uint32_t> piece = groups.first(rows);
  of_states = of_states.first(rows);
  const size_t key_columns = plan_.keys().size();
  keys.decode(piece, std::span(pieces_).first(key_columns));
  for (size_t i = 0; i < plan_.aggregates().size(); ++i) {
    plan_.aggregates()[i]->finish(states, of_states, pieces_[key_columns + i]);
  }
  if (!has_room(batch)) return 0;  // the piece is finished once more, into the next batch
  if (plan_.session()) {
    const SessionBounds& bounds = bounds_of(states);
    gather_into(bounds.starts, piece, {batch.columns[0].values.extend(rows * sizeof(int64_t)), rows * sizeof(int64_t)});
    gather_into(bounds.ends, piece, {batch.columns[1].values.extend(rows * sizeof(int64_t)), rows * sizeof(int64_t)});
  } else {
    batch.columns[0].append(window, rows);
    batch.columns[1].append(window + plan_.window().size_us(), rows);
  }
  for (size_t i = 0; i < pieces_.size(); ++i) batch.columns[2 + i].append(pieces_[i], batch.rows, rows);
  batch.rows += rows;
  return rows;
}

size_t RowWriter::append_sessions(RecordBatch& batch, const SessionTable& table, std::span<const uint32_t> slots,
                                  size_t max_rows) {
  size_t appended = 0;
  while (batch.rows < max_rows && appended < slots.size()) {
    const size_t rows = append(batch, 0, table.keys(), table.states(), slots.subspan(appended), max_rows);
    if (rows == 0) break;
    appended += rows;
  }
  return appended;
}

void RowWriter::end(const RecordBatch& batch) {
  if (batch.rows == 0) return;
  for (size_t i = 0; i < fields_.size(); ++i) last_bytes_[i] = batch.columns[i].values.size();
}

uint64_t RowWriter::longest_column(const GroupKeys& keys, const StateSet& states, std::span<const uint32_t> groups,
                                   std::span<const uint32_t> of_states) const {
  uint64_t longest = 0;
  for (size_t key = 0; key < plan_.keys().size(); ++key) {
    if (fields_[2 + key].type.is_variable()) longest = std::max(longest, keys.variable_bytes(groups, key));
  }
  for (size_t state = 0; state < states.size(); ++state) {
    longest = std::max(longest, states[state].variable_bytes(of_states));
  }
  return longest;
}

bool RowWriter::has_room(const RecordBatch& batch) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].type.is_variable() && !batch.columns[2 + i].has_room(pieces_[i].values.size())) return false;
  }
  return true;
}

}  // namespace pyslash
