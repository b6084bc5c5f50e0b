#include "pyslash/accumulator.h"

#include <nanobind/stl/string.h>

#include "arrow_import.h"
#include "faces.h"
#include "identity.h"
#include "module.h"
#include "pyslash/seal.h"

namespace pyslash::python {
namespace {

void add(AccumulatorFace& self, const nb::object& rows) {
  const ImportedBatch batch(rows, self.accumulator.plan());
  if (batch.rows() == 0) return;
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  self.accumulator.add_columns(batch.columns(), batch.rows());
}

nb::bytes seal_into(AccumulatorFace& self, const ArenaFace& arena, const nb::bytes& query, int64_t epoch,
                    int64_t attempt) {
  const BlockIdentity identity{identity_of(query, "the query"), epoch, attempt};
  std::vector<uint8_t> head;
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(self.mutex);
    Arena target = arena.arena();
    head = seal(self.accumulator, target, identity);
  }
  return to_bytes(head);
}

template <int64_t (Accumulator::*figure)() const>
int64_t read(const AccumulatorFace& self) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  return (self.accumulator.*figure)();
}

std::string describe(const AccumulatorFace& self) {
  return "<pyslash._native.Accumulator: " + std::to_string(read<&Accumulator::groups>(self)) + " groups of " +
         std::to_string(read<&Accumulator::rows>(self)) + " rows>";
}

}  // namespace

void bind_accumulator(nb::module_& m) {
  nb::class_<AccumulatorFace>(m, "Accumulator", "Rows in, partial states of (pane, key) groups held.")
      .def(nb::init<const PlanFace&, int64_t>(), nb::arg("plan"), nb::arg("watermark_us"))
      .def("add", add, nb::arg("rows"), "Adds a record batch or struct array: the event time, then the plan's columns.")
      .def("seal", seal_into, nb::arg("arena"), nb::arg("query"), nb::arg("epoch"), nb::arg("attempt"),
           "Writes the groups into the arena as a published block and returns its head, which is the receipt.")
      .def_prop_ro("rows", read<&Accumulator::rows>)
      .def_prop_ro("late_rows", read<&Accumulator::late_rows>)
      .def_prop_ro("max_event_time", read<&Accumulator::max_event_time>, "Microseconds; -2**63 if no row had a time.")
      .def_prop_ro("groups", read<&Accumulator::groups>)
      .def("__repr__", describe);
}

}  // namespace pyslash::python
