// Errors of the core as the classes of pyslash.errors that it names.
#include <array>

#include "module.h"
#include "pyslash/error.h"

namespace pyslash::python {
namespace {

// In the order of Status. Held for the life of the process: an exception may be raised while the module is torn down.
std::array<PyObject*, static_cast<size_t>(Status::internal) + 1> classes;

}  // namespace

void register_errors() {
  const nb::module_ errors = nb::module_::import_("pyslash.errors");
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i] = nb::object(errors.attr(class_name(static_cast<Status>(i)))).release().ptr();
  }
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const Error& error) {
      PyErr_SetString(classes[static_cast<size_t>(error.status())], error.what());
    }
  });
}

}  // namespace pyslash::python
