#include "module.h"

#include "buffer_view.h"
#include "pyslash/crc32c.h"

namespace pyslash::python {

NB_MODULE(_native, m) {
  // Objects that live until the interpreter ends are no leak: a query's last epoch keeps its heads.
  nb::set_leak_warnings(false);
  m.doc() = "The native core: accumulate, seal, merge and compact blocks of partial window state.";
  register_errors();
  bind_plan(m);
  bind_record_batch(m);
  bind_arena(m);
  bind_accumulator(m);
  bind_head(m);
  bind_merger(m);
  bind_session_merger(m);
  bind_key_index(m);
  bind_compact(m);
  m.def(
      "crc32c",
      [](const nb::object& data, uint32_t crc) {
        const BufferView view(data);
        const nb::gil_scoped_release released;
        return crc32c(view.bytes().data(), view.bytes().size(), crc);
      },
      nb::arg("data"), nb::arg("crc") = 0, "CRC32C (Castagnoli) of a bytes-like object, after what has the CRC `crc`.");
}

}  // namespace pyslash::python
