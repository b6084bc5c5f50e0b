#include <nanobind/stl/string.h>

#include "arrow_import.h"
#include "buffer_view.h"
#include "calls.h"

namespace pyslash::python {
namespace {

void add(AccumulatorFace& self, const nb::object& rows) {
  const ImportedBatch batch(rows, self.update.plan());
  if (batch.rows() == 0) return;
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  self.update.add_columns(batch.columns(), batch.rows());
}

void add_block(AccumulatorFace& self, const HeadFace& head, uint64_t offset, const nb::object& buffer) {
  const BufferView view(buffer);
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  self.update.add_block(head.head, offset, view.bytes());
}

nb::bytes seal(AccumulatorFace& self, const ArenaFace& arena, const nb::bytes& query, int64_t epoch, int64_t attempt) {
  return seal_into(self.update, self.mutex, arena, query, epoch, attempt);
}

template <int64_t (Update::*figure)() const>
int64_t read(const AccumulatorFace& self) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  return (self.update.*figure)();
}

std::string describe(const AccumulatorFace& self) {
  return "<pyslash._native.Accumulator: " + std::to_string(read<&Update::groups>(self)) + " groups of " +
         std::to_string(read<&Update::rows>(self)) + " rows>";
}

}  // namespace

void bind_accumulator(nb::module_& m) {
  nb::class_<AccumulatorFace>(m, "Accumulator", "Rows in, partial states of (pane, key) groups held.")
      .def(nb::init<const PlanFace&, int64_t, int64_t, int64_t>(), nb::arg("plan"), nb::arg("watermark_us"),
           nb::arg("epoch") = 0, nb::arg("partition") = 0)
      .def("add", add, nb::arg("rows"), "Adds a record batch or struct array: the event time, then the plan's columns.")
      .def("add_block", add_block, nb::arg("head"), nb::arg("offset"), nb::arg("buffer"),
           "Adds the rows of those segments of a block of rows that `buffer` holds whole; it starts `offset` bytes in.")
      .def("seal", seal, nb::arg("arena"), nb::arg("query"), nb::arg("epoch"), nb::arg("attempt"),
           "Writes the groups into the arena as a published block and returns its head, which is the receipt.")
      .def_prop_ro("rows", read<&Update::rows>)
      .def_prop_ro("late_rows", read<&Update::late_rows>)
      .def_prop_ro("max_event_time", read<&Update::max_event_time>, "Microseconds; -2**63 if no row had a time.")
      .def_prop_ro("groups", read<&Update::groups>)
      .def("__repr__", describe);
}

}  // namespace pyslash::python
