#include "sessions/session_rows.h"

#include <algorithm>

#include "update/event_time.h"

namespace pyslash {

SessionRows::SessionRows(const Plan& plan, const KeyCodec& codec, int64_t watermark_us)
    : plan_(plan), watermark_us_(watermark_us), table_(plan, codec) {}

void SessionRows::begin(const Batch& batch, const EncodedKeys& keys, uint32_t* slots) {
  const BatchColumn& time = batch.columns[0];
  const int64_t gap = plan_.session()->gap_us;
  const BatchColumn& stop = batch.columns[gap == 0 ? 1 : 0];
  const bool late_by_row = !plan_.session()->late_by_task;
  starts_.resize(batch.rows);
  ends_.resize(batch.rows);
  rows_.clear();
  for (uint32_t row = 0; row < batch.rows; ++row) {
    slots[row] = SessionTable::ignored;
    if (time.valid != nullptr && !time.valid[row]) continue;
    starts_[row] = load<int64_t>(time.values, row);
    check_time(plan_.window(), starts_[row]);
    max_event_time_ = std::max(max_event_time_, starts_[row]);
    if (stop.valid != nullptr && !stop.valid[row]) continue;
    ends_[row] = load<int64_t>(stop.values, row) + gap;
    if (ends_[row] <= starts_[row]) continue;
    check_time(plan_.window(), ends_[row]);
    if (late_by_row && ends_[row] <= watermark_us_) {
      ++late_rows_;
      continue;
    }
    rows_.push_back(row);
  }
  table_.take({keys, rows_, starts_.data(), ends_.data(), plan_.place().evicted_us}, slots);
}

int64_t SessionRows::late_rows() const {
  if (!plan_.session()->late_by_task) return late_rows_;
  std::vector<uint32_t> late;
  table_.sessions(watermark_us_, late);
  int64_t rows = 0;
  for (const uint32_t slot : late) rows += table_.states().rows()[slot];
  return rows;
}

std::vector<uint32_t> SessionRows::slots() const {
  std::vector<uint32_t> slots;
  table_.sessions(INT64_MAX, slots);
  if (plan_.session()->late_by_task) {
    std::erase_if(slots, [&](uint32_t slot) { return table_.bounds().ends[slot] <= watermark_us_; });
  }
  return slots;
}

}  // namespace pyslash
