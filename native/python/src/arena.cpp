#include "pyslash/arena.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "faces.h"
#include "identity.h"
#include "module.h"

namespace pyslash::python {
namespace {

// Bytes of an arena under the buffer protocol. They stay mapped while a view of them lives, even if the arena has been
// closed.
struct ArenaBytes {
  std::shared_ptr<const void> keep_alive;
  std::span<const uint8_t> bytes;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const auto* that = nb::inst_ptr<ArenaBytes>(self);
  constexpr int read_only = 1;
  return PyBuffer_FillInfo(view, self, const_cast<uint8_t*>(that->bytes.data()),
                           static_cast<Py_ssize_t>(that->bytes.size()), read_only, flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::object view(const ArenaFace& self, uint64_t offset, uint64_t length) {
  const Arena arena = self.arena();
  const nb::object bytes = nb::cast(ArenaBytes{arena.keep_alive(), arena.view(offset, length)});
  return nb::steal(PyMemoryView_FromObject(bytes.ptr()));
}

nb::list blocks(const ArenaFace& self) {
  std::vector<ArenaBlock> found;
  {
    const nb::gil_scoped_release released;
    found = self.arena().blocks();
  }
  nb::list list;
  for (const ArenaBlock& block : found) {
    list.append(nb::make_tuple(block.offset, block.length, static_cast<uint32_t>(block.state), block.owner_pid,
                               to_bytes(block.query), block.epoch));
  }
  return list;
}

std::string describe(const ArenaFace& self) {
  if (self.is_closed()) return "<pyslash._native.Arena: closed>";
  const Arena arena = self.arena();
  return "<pyslash._native.Arena: " + std::to_string(arena.used_bytes()) + " of " + std::to_string(arena.capacity()) +
         " bytes used>";
}

}  // namespace

void bind_arena(nb::module_& m) {
  nb::class_<ArenaBytes>(m, "ArenaBytes", nb::type_slots(buffer_slots), "Read-only bytes of an arena.");

  nb::class_<ArenaFace>(m, "Arena", "The memory that holds an executor's blocks, shared by all processes of a host.")
      .def_static(
          "create",
          [](int fd, uint64_t size, const nb::bytes& incarnation) {
            return std::make_unique<ArenaFace>(Arena::create(fd, size, identity_of(incarnation, "the incarnation")));
          },
          nb::arg("fd"), nb::arg("size"), nb::arg("incarnation"),
          "Sizes a fresh memfd to `size` bytes and lays out an empty arena. The descriptor stays the caller's.")
      .def_static(
          "attach",
          [](int fd, const nb::bytes& incarnation) {
            return std::make_unique<ArenaFace>(Arena::attach(fd, identity_of(incarnation, "the incarnation")));
          },
          nb::arg("fd"), nb::arg("incarnation"), "Maps an arena that another process created.")
      .def_prop_ro("size", [](const ArenaFace& self) { return self.arena().size(); })
      .def_prop_ro("capacity", [](const ArenaFace& self) { return self.arena().capacity(); })
      .def_prop_ro("incarnation", [](const ArenaFace& self) { return to_bytes(self.arena().incarnation()); })
      .def_prop_ro(
          "used_bytes", [](const ArenaFace& self) { return self.arena().used_bytes(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("closed", &ArenaFace::is_closed)
      .def("view", view, nb::arg("offset"), nb::arg("length"), "Read-only memoryview; it outlives close().")
      .def(
          "allocate",
          [](const ArenaFace& self, uint64_t length, const nb::bytes& query, int64_t epoch) {
            const Identity id = identity_of(query, "the query");
            const nb::gil_scoped_release released;
            return self.arena().allocate(length, id, epoch);
          },
          nb::arg("length"), nb::arg("query"), nb::arg("epoch"),
          "Offset of fresh bytes that this process owns until it publishes or frees them.")
      .def(
          "publish", [](const ArenaFace& self, uint64_t offset) { self.arena().publish(offset); }, nb::arg("offset"),
          nb::call_guard<nb::gil_scoped_release>(), "The block is complete and immutable from here on.")
      .def(
          "commit",
          [](const ArenaFace& self, const nb::bytes& query, int64_t epoch, const std::vector<uint64_t>& offsets) {
            const Identity id = identity_of(query, "the query");
            const nb::gil_scoped_release released;
            return self.arena().commit(id, epoch, offsets);
          },
          nb::arg("query"), nb::arg("epoch"), nb::arg("offsets"),
          "Commits the published blocks; drops all other uncommitted ones of the query up to the epoch. Their number.")
      .def(
          "free", [](const ArenaFace& self, uint64_t offset) { self.arena().free(offset); }, nb::arg("offset"),
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "reclaim_dead", [](const ArenaFace& self) { return self.arena().reclaim_dead(); },
          nb::call_guard<nb::gil_scoped_release>(), "Frees what dead processes never published; how many blocks.")
      .def("blocks", blocks, "(offset, length, state, owner_pid, query, epoch) of each block, by offset.")
      .def("close", &ArenaFace::close, "Lets go of the memory, once no view is left. May be repeated.")
      .def("__repr__", describe);
}

}  // namespace pyslash::python
