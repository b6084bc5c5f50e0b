#include "pyslash/compact.h"

#include <nanobind/stl/vector.h>

#include "faces.h"
#include "identity.h"
#include "module.h"

namespace pyslash::python {
namespace {

nb::bytes compact_blocks(const PlanFace& plan, const ArenaFace& arena, const std::vector<uint64_t>& offsets,
                         int64_t first_live_pane_us, const nb::bytes& query, int64_t epoch, uint32_t share,
                         uint32_t shares) {
  const BlockIdentity identity{identity_of(query, "the query"), epoch, 0};
  std::vector<uint8_t> head;
  {
    const nb::gil_scoped_release released;
    Arena target = arena.arena();
    head = compact(plan.plan, target, offsets, first_live_pane_us, identity, {share, shares});
  }
  return to_bytes(head);
}

}  // namespace

void bind_compact(nb::module_& m) {
  m.def(
      "compact", compact_blocks, nb::arg("plan"), nb::arg("arena"), nb::arg("offsets"), nb::arg("first_live_pane_us"),
      nb::arg("query"), nb::arg("epoch"), nb::arg("share") = 0, nb::arg("shares") = 1,
      "Folds a share of blocks' keys into a new published block without dead panes; its head, empty without a group.");
}

}  // namespace pyslash::python
