// Status -> class of pyslash.errors, the only place that maps them.
#include <array>
#include <utility>

#include "module.h"
#include "pyslash/error.h"

namespace pyslash::python {
namespace {

constexpr std::array<std::pair<Status, const char*>, 8> class_names{{
    {Status::invalid_plan, "InvalidPlanError"},
    {Status::invalid_input, "InvalidInputError"},
    {Status::corrupt_block, "CorruptBlockError"},
    {Status::stale_incarnation, "StaleIncarnationError"},
    {Status::arena_full, "ArenaFullError"},
    {Status::arena_busy, "ArenaBusyError"},
    {Status::arithmetic_overflow, "ArithmeticOverflowError"},
    {Status::internal, "NativeError"},
}};

// Held for the life of the process: an exception may be raised while the module is torn down.
std::array<PyObject*, class_names.size()> classes;

PyObject* class_of(Status status) {
  for (size_t i = 0; i < class_names.size(); ++i) {
    if (class_names[i].first == status) return classes[i];
  }
  return PyExc_RuntimeError;
}

}  // namespace

void register_errors() {
  const nb::module_ errors = nb::module_::import_("pyslash.errors");
  for (size_t i = 0; i < class_names.size(); ++i) {
    classes[i] = nb::object(errors.attr(class_names[i].second)).release().ptr();
  }
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const Error& error) {
      PyErr_SetString(class_of(error.status()), error.what());
    }
  });
}

}  // namespace pyslash::python
