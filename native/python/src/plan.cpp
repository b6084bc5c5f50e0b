#include "pyslash/plan.h"

#include <nanobind/stl/string.h>

#include "faces.h"
#include "module.h"
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
