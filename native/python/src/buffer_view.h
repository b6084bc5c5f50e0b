// A contiguous view of any object with the buffer protocol; it keeps the object's memory in place while it lives.
#pragma once

#include <nanobind/nanobind.h>

#include <span>

#include "pyslash/bytes.h"

namespace pyslash::python {

namespace nb = nanobind;

class BufferView {
 public:
  // PyBUF_WRITABLE for a buffer that is written into; a read-only one is a BufferError then.
  explicit BufferView(nb::handle object, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  Bytes bytes() const { return {static_cast<const uint8_t*>(view_.buf), static_cast<size_t>(view_.len)}; }
  // Whole values of a writable buffer.
  template <typename T>
  std::span<T> writable() const {
    return {static_cast<T*>(view_.buf), static_cast<size_t>(view_.len) / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace pyslash::python
