#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>

#include "buffer_view.h"
#include "faces.h"
#include "identity.h"
#include "module.h"
#include "pyslash/block.h"

namespace pyslash::python {
namespace {

nb::list panes(const HeadFace& self) {
  struct Figures {
    uint64_t groups = 0;
    uint64_t bytes = 0;
  };
  std::map<int64_t, Figures> panes;
  for (const SegmentEntry& entry : self.head.segments) {
    Figures& figures = panes[entry.pane];
    figures.groups += entry.rows;
    figures.bytes += entry.length;
  }
  nb::list list;
  for (const auto& [pane, figures] : panes) list.append(nb::make_tuple(pane, figures.groups, figures.bytes));
  return list;
}

uint64_t prefix_ranges(const HeadFace& self) {
  uint32_t bits = 0;
  for (const SegmentEntry& entry : self.head.segments) bits = std::max(bits, entry.prefix_bits);
  return uint64_t{1} << bits;
}

nb::list ranges_of(const HeadFace& self, int64_t pane_lo, int64_t pane_hi, uint64_t prefix_lo, uint64_t prefix_hi) {
  nb::list list;
  for (const ByteRange& range : ranges(self.head, pane_lo, pane_hi, prefix_lo, prefix_hi)) {
    list.append(nb::make_tuple(range.offset, range.length));
  }
  return list;
}

std::string describe(const HeadFace& self) {
  const Header& header = self.head.header;
  return "<pyslash._native.Head: epoch " + std::to_string(header.epoch) + ", attempt " +
         std::to_string(header.attempt) + ", " + std::to_string(header.groups) + " groups of " +
         std::to_string(header.rows) + " rows, " + std::to_string(header.length) + " bytes at " +
         std::to_string(header.arena_offset) + ">";
}

}  // namespace

void bind_head(nb::module_& m) {
  nb::class_<HeadFace>(m, "Head", "What a block is and where its segments are.")
      .def(
          "__init__",
          [](HeadFace* self, const nb::object& buffer) {
            const BufferView view(buffer);
            const nb::gil_scoped_release released;
            new (self) HeadFace{read_head(view.bytes())};
          },
          nb::arg("buffer"), "Reads the head at the start of a bytes-like object: a receipt, or a block.")
      .def_prop_ro("fingerprint", [](const HeadFace& self) { return self.head.header.plan_fingerprint; })
      .def_prop_ro("query", [](const HeadFace& self) { return to_bytes(self.head.header.query); })
      .def_prop_ro("incarnation", [](const HeadFace& self) { return to_bytes(self.head.header.incarnation); })
      .def_prop_ro("epoch", [](const HeadFace& self) { return self.head.header.epoch; })
      .def_prop_ro("attempt", [](const HeadFace& self) { return self.head.header.attempt; })
      .def_prop_ro("arena_offset", [](const HeadFace& self) { return self.head.header.arena_offset; })
      .def_prop_ro("length", [](const HeadFace& self) { return self.head.header.length; })
      .def_prop_ro("head_length", [](const HeadFace& self) { return self.head.header.head_length; })
      .def_prop_ro("groups", [](const HeadFace& self) { return self.head.header.groups; })
      .def_prop_ro("rows", [](const HeadFace& self) { return self.head.header.rows; })
      .def_prop_ro("late_rows", [](const HeadFace& self) { return self.head.header.late_rows; })
      .def_prop_ro("max_event_time", [](const HeadFace& self) { return self.head.header.max_event_time; })
      .def_prop_ro("plan_text", [](const HeadFace& self) { return self.head.plan_text; })
      .def_prop_ro("panes", panes, "(pane, groups, bytes) of each pane, ascending; pane starts are in microseconds.")
      .def_prop_ro("prefix_ranges", prefix_ranges,
                   "Into so many ranges of hash prefixes its finest segments cut all keys.")
      .def("ranges", ranges_of, nb::arg("pane_lo"), nb::arg("pane_hi"), nb::arg("prefix_lo"), nb::arg("prefix_hi"),
           "(offset, length) within the block of what a reader of these panes and hash prefixes must fetch.")
      .def("__repr__", describe);
}

}  // namespace pyslash::python
