#include "pyslash/plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "faces.h"
#include "identity.h"
#include "module.h"
#include "pyslash/states.h"
#include "record_batch.h"

namespace pyslash::python {

void bind_plan(nb::module_& m) {
  nb::class_<PlanFace>(m, "Plan", "What a query computes; docs/block-format.md has the grammar of its text.")
      .def(
          "__init__",
          [](PlanFace* self, const std::string& text) {
            new (self) PlanFace{std::make_shared<const Plan>(Plan::parse(text))};
          },
          nb::arg("text"))
      .def_prop_ro("text", [](const PlanFace& self) { return self.plan->text(); })
      .def_prop_ro("fingerprint", [](const PlanFace& self) { return self.plan->fingerprint(); })
      .def_prop_ro("pane_us", [](const PlanFace& self) { return self.plan->window().pane_us(); })
      .def_prop_ro("deduplicates", [](const PlanFace& self) { return self.plan->deduplicates(); })
      .def_prop_ro("row_bits", [](const PlanFace& self) { return self.plan->row_bits(); })
      .def_prop_ro("states",
                   [](const PlanFace& self) {
                     nb::list states;
                     for (const StateSpec& spec : self.plan->states()) {
                       states.append(nb::make_tuple(std::string(spec.kind->name), spec.columns,
                                                    spec.kind->make(spec.types)->buffers()));
                     }
                     return states;
                   })
      .def_prop_ro("needs", [](const PlanFace& self) { return self.plan->needs(); })
      .def(
          "nothing_seen",
          [](const PlanFace& self, size_t state, size_t groups) {
            if (state >= self.plan->states().size()) {
              throw Error(Status::invalid_input, "there is no state " + std::to_string(state));
            }
            nb::list buffers;
            for (const auto& buffer : nothing_seen(self.plan->states()[state], groups)) {
              buffers.append(to_bytes(buffer));
            }
            return buffers;
          },
          nb::arg("state"), nb::arg("groups"))
      .def_prop_ro("schema",
                   [](const PlanFace& self) {
                     return SchemaFace{std::make_shared<const std::vector<ResultField>>(result_fields(*self.plan))};
                   })
      .def("__repr__", [](const PlanFace& self) {
        return "<pyslash._native.Plan " + std::to_string(self.plan->fingerprint()) + ": " +
               std::to_string(self.plan->keys().size()) + " keys, " + std::to_string(self.plan->aggregates().size()) +
               " aggregates>";
      });
}

}  // namespace pyslash::python
