// Results for other libraries, through the Arrow C data interface: the buffers are shared, not copied.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>

#include "pyslash/record_batch.h"

namespace pyslash::python {

namespace nb = nanobind;

// What a class needs for __arrow_c_schema__ and __arrow_c_array__. A struct whose children are the fields.
nb::capsule schema_capsule(std::span<const ResultField> fields);
// The array keeps the batch alive until the consumer releases it.
nb::capsule array_capsule(const std::shared_ptr<const RecordBatch>& batch);

}  // namespace pyslash::python
