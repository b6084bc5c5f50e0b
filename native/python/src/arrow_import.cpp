#include "arrow_import.h"

#include <string>
#include <string_view>

#include "arrow_format.h"
#include "pyslash/error.h"

namespace pyslash::python {
namespace {

Error invalid(const std::string& message) { return {Status::invalid_input, message}; }

template <typename T>
const T& pointer_in(nb::handle capsule, const char* name) {
  auto* pointer = static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (pointer == nullptr) throw nb::python_error();
  if (pointer->release == nullptr) throw invalid(std::string("the ") + name + " has already been consumed");
  return *pointer;
}

bool has_null_rows(const ArrowArray& array) {
  if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return false;
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  for (int64_t i = array.offset; i < array.offset + array.length; ++i) {
    if ((bits[i / 8] >> (i % 8) & 1) == 0) return true;
  }
  return false;
}

ColumnView view_column(const ArrowSchema& schema, const ArrowArray& array, const ArrowArray& parent,
                       const Column& column, const std::string& which) {
  const std::string_view format = schema.format;
  if (schema.dictionary != nullptr || !reads_as(format, column.type)) {
    throw invalid(which + " is of Arrow format " + (schema.dictionary != nullptr ? "dictionary" : std::string(format)) +
                  ", but the plan says " + column.type.name());
  }
  if (array.offset < 0 || array.length < parent.offset + parent.length) {
    throw invalid(which + " has " + std::to_string(array.length) + " rows, but " +
                  std::to_string(parent.offset + parent.length) + " are needed");
  }
  const bool variable = column.type.is_variable();
  if (array.n_buffers != (variable ? 3 : 2)) {
    throw invalid(which + " has " + std::to_string(array.n_buffers) + " buffers");
  }
  ColumnView view{};
  view.type = column.type;
  view.validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  view.values = static_cast<const uint8_t*>(array.buffers[variable ? 2 : 1]);
  view.offsets = variable ? static_cast<const uint8_t*>(array.buffers[1]) : nullptr;
  view.large_offsets = has_large_offsets(format);
  view.offset = parent.offset + array.offset;
  if (parent.length > 0 && (variable ? view.offsets : view.values) == nullptr) throw invalid(which + " lacks a buffer");
  return view;
}

}  // namespace

std::vector<ColumnView> view_columns(const ArrowSchema& schema, const ArrowArray& array, const Plan& plan) {
  const std::vector<Column>& wanted = plan.columns();
  if (std::string_view(schema.format) != "+s") throw invalid("rows must come as a struct array or record batch");
  if (schema.n_children != static_cast<int64_t>(wanted.size()) || array.n_children != schema.n_children) {
    throw invalid("rows have " + std::to_string(schema.n_children) + " columns, but the plan has " +
                  std::to_string(wanted.size()) + ": the event time and " + std::to_string(wanted.size() - 1) +
                  " more");
  }
  if (array.length < 0 || array.offset < 0) throw invalid("rows have a negative length or offset");
  if (has_null_rows(array)) throw invalid("a struct that is null is no row");
  std::vector<ColumnView> views;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string which = i == 0 ? "the event time" : "column " + std::to_string(i);
    Column column = wanted[i];
    // The event time may be one without a zone: nothing but its microseconds counts.
    if (i == 0 && std::string_view(schema.children[0]->format) == "tsu:") column.type.id = TypeId::timestamp_ntz;
    views.push_back(view_column(*schema.children[i], *array.children[i], array, column, which));
  }
  return views;
}

ImportedBatch::ImportedBatch(const nb::object& object, const Plan& plan) {
  if (!nb::hasattr(object, "__arrow_c_array__")) {
    throw nb::type_error("an object with __arrow_c_array__ is needed, such as a pyarrow.RecordBatch");
  }
  capsules_ = object.attr("__arrow_c_array__")();
  const auto& schema = pointer_in<ArrowSchema>(capsules_[0], "arrow_schema");
  const auto& array = pointer_in<ArrowArray>(capsules_[1], "arrow_array");
  columns_ = view_columns(schema, array, plan);
  rows_ = static_cast<size_t>(array.length);
}

}  // namespace pyslash::python
