// Results in Arrow's own layout, ready to be handed over without a copy.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash {

// Bytes that grow at the end, aligned to 64 as Arrow recommends. Fresh bytes are not initialised.
class Buffer {
 public:
  size_t size() const { return size_; }
  const uint8_t* data() const { return data_.get(); }
  uint8_t* data() { return data_.get(); }
  // Memory for `bytes` in all; none of it is touched yet.
  void reserve(size_t bytes);
  // Room for `bytes` more; where they start.
  uint8_t* extend(size_t bytes);
  void append(const void* source, size_t bytes) {
    if (bytes != 0) std::memcpy(extend(bytes), source, bytes);
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t[], Free> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// One column: Arrow's buffers for its type. Decimals are 16 bytes, booleans a bitmap, string and binary have int32
// offsets.
struct ArrowColumn {
  Type type;
  int64_t nulls = 0;
  Buffer validity;  // bitmap; empty while there is no null
  Buffer values;
  Buffer offsets;

  explicit ArrowColumn(Type of);
  // Appends the rows of `piece` behind the `rows` that are there.
  void append(const ResultColumn& piece, size_t rows, size_t piece_rows);
  // Appends `count` times the same int64.
  void append(int64_t value, size_t count);
  // Whether `bytes` more fit the int32 offsets.
  bool has_room(size_t bytes) const { return values.size() + bytes <= INT32_MAX; }
};

struct RecordBatch {
  size_t rows = 0;
  std::vector<ArrowColumn> columns;
};

struct ResultField {
  std::string name;
  Type type;
  bool nullable;
};

// Columns of a plan's result: window_start, window_end, key0 ..., agg0 ...
std::vector<ResultField> result_fields(const Plan& plan);

}  // namespace pyslash
