// The Python classes of results.
#pragma once

#include <memory>
#include <vector>

#include "pyslash/record_batch.h"

namespace pyslash::python {

using Fields = std::shared_ptr<const std::vector<ResultField>>;

struct SchemaFace {
  Fields fields;
};

struct RecordBatchFace {
  Fields fields;
  std::shared_ptr<const RecordBatch> batch;
};

}  // namespace pyslash::python
