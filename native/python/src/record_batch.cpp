#include "record_batch.h"

#include <nanobind/stl/string.h>

#include "arrow_export.h"
#include "module.h"

namespace pyslash::python {
namespace {

std::string describe(const RecordBatchFace& self) {
  return "<pyslash._native.RecordBatch: " + std::to_string(self.batch->rows) + " rows, " +
         std::to_string(self.batch->columns.size()) + " columns>";
}

}  // namespace

void bind_record_batch(nb::module_& m) {
  nb::class_<SchemaFace>(m, "Schema", "Columns of a plan's result, for pyarrow.schema() and the like.")
      .def("__arrow_c_schema__", [](const SchemaFace& self) { return schema_capsule(*self.fields); });

  nb::class_<RecordBatchFace>(m, "RecordBatch", "Rows of a result, for pyarrow.record_batch() and the like; no copy.")
      .def_prop_ro("num_rows", [](const RecordBatchFace& self) { return self.batch->rows; })
      .def("__len__", [](const RecordBatchFace& self) { return self.batch->rows; })
      .def("__repr__", describe)
      .def("__arrow_c_schema__", [](const RecordBatchFace& self) { return schema_capsule(*self.fields); })
      .def(
          "__arrow_c_array__",
          [](const RecordBatchFace& self, const nb::object&) {
            return nb::make_tuple(schema_capsule(*self.fields), array_capsule(self.batch));
          },
          nb::arg("requested_schema") = nb::none());
}

}  // namespace pyslash::python
