// One function for each source file that adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace pyslash::python {

namespace nb = nanobind;

void register_errors();
void bind_plan(nb::module_& m);
void bind_record_batch(nb::module_& m);
void bind_arena(nb::module_& m);
void bind_accumulator(nb::module_& m);
void bind_head(nb::module_& m);
void bind_merger(nb::module_& m);
void bind_session_merger(nb::module_& m);
void bind_key_index(nb::module_& m);
void bind_compact(nb::module_& m);

}  // namespace pyslash::python
