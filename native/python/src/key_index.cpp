#include "pyslash/key_index.h"

#include "arrow_import.h"
#include "buffer_view.h"
#include "faces.h"
#include "module.h"

namespace pyslash::python {
namespace {

struct KeyIndexFace {
  explicit KeyIndexFace(const PlanFace& plan) : index(plan.plan) {}

  std::mutex mutex;
  KeyIndex index;
};

void add(KeyIndexFace& self, const nb::object& rows) {
  const ImportedBatch batch(rows, self.index.plan());
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  self.index.add(batch.columns(), batch.rows());
}

void find(KeyIndexFace& self, const nb::object& rows, const nb::object& found) {
  const ImportedBatch batch(rows, self.index.plan());
  const BufferView view(found, PyBUF_WRITABLE);
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  self.index.find(batch.columns(), batch.rows(), view.writable<int32_t>());
}

}  // namespace

void bind_key_index(nb::module_& m) {
  nb::class_<KeyIndexFace>(m, "KeyIndex", "Rows of a table by their keys, which differ.")
      .def(nb::init<const PlanFace&>(), nb::arg("plan"))
      .def("add", add, nb::arg("rows"), "Adds a record batch: the event time, then the plan's columns.")
      .def("find", find, nb::arg("rows"), nb::arg("found"),
           "Into `found`, int32: of each row of a record batch the number of the row that has its key, or -1.");
}

}  // namespace pyslash::python
