// Rows as the accumulator takes them: a few thousand at a time, so that a batch's columns stay in the first-level
// cache.
#pragma once

#include <functional>
#include <vector>

#include "pyslash/column.h"

namespace pyslash {

inline constexpr size_t batch_rows = 4096;

struct Batch {
  size_t rows = 0;
  std::vector<BatchColumn> columns;  // the event time, then the plan's columns
};

using BatchConsumer = std::function<void(const Batch&)>;

}  // namespace pyslash
