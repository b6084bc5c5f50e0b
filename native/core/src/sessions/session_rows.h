// The update side of sessions: rows of a task into parts of sessions, which whoever has those of all tasks puts
// together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/key_codec.h"
#include "pyslash/plan.h"
#include "sessions/session_table.h"
#include "update/batch.h"

namespace pyslash {

class SessionRows {
 public:
  // Both must outlive it.
  SessionRows(const Plan& plan, const KeyCodec& codec, int64_t watermark_us);

  // Finds the slots of a batch's rows. Once the states have been updated, end().
  void begin(const Batch& batch, const EncodedKeys& keys, uint32_t* slots);
  void end() { table_.join(); }

  StateSet& states() { return table_.states(); }
  const SessionTable& table() const { return table_; }
  int64_t late_rows() const;
  int64_t max_event_time() const { return max_event_time_; }
  // Slots of what is not late.
  std::vector<uint32_t> slots() const;

 private:
  const Plan& plan_;
  int64_t watermark_us_;
  int64_t late_rows_ = 0;
  int64_t max_event_time_ = INT64_MIN;
  SessionTable table_;
  std::vector<int64_t> starts_;
  std::vector<int64_t> ends_;
  std::vector<uint32_t> rows_;
};

}  // namespace pyslash
