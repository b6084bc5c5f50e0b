// A contiguous view of any object with the buffer protocol; it keeps the object's memory in place while it lives.
#pragma once

#include <nanobind/nanobind.h>

#include <span>

#include "pyslash/bytes.h"

namespace pyslash::python {

namespace nb = nanobind;

class BufferView {
 public:
  explicit BufferView(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  Bytes bytes() const { return {static_cast<const uint8_t*>(view_.buf), static_cast<size_t>(view_.len)}; }

 private:
  Py_buffer view_{};
};

// The same of memory that a call writes into.
class WritableBufferView {
 public:
  explicit WritableBufferView(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_WRITABLE) != 0) throw nb::python_error();
  }
  ~WritableBufferView() { PyBuffer_Release(&view_); }
  WritableBufferView(const WritableBufferView&) = delete;
  WritableBufferView& operator=(const WritableBufferView&) = delete;

  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(view_.buf), static_cast<size_t>(view_.len) / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace pyslash::python
