#include <nanobind/stl/optional.h>

#include "buffer_view.h"
#include "calls.h"
#include "pyslash/session_merge.h"

namespace pyslash::python {
namespace {

class SessionMergerFace {
 public:
  SessionMergerFace(const PlanFace& plan, int64_t pane, int64_t evicted_us, int64_t closing_us, uint64_t prefix_lo,
                    uint64_t prefix_hi)
      : fields_(std::make_shared<const std::vector<ResultField>>(result_fields(*plan.plan))),
        merger_(plan.plan, {pane, evicted_us, closing_us, prefix_lo, prefix_hi}) {}

  void add(const nb::object& head, uint64_t offset, const nb::object& buffer) {
    const nb::object parsed = head_.parse(head);
    const Head& parsed_head = nb::cast<const HeadFace&>(parsed).head;
    const BufferView view(buffer);
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    merger_.add(parsed_head, offset, view.bytes());
  }

  std::optional<RecordBatchFace> next(size_t max_rows) { return next_rows(merger_, mutex_, fields_, max_rows); }

  nb::bytes seal(const ArenaFace& arena, const nb::bytes& query, int64_t epoch, int64_t attempt) {
    return seal_into(merger_, mutex_, arena, query, epoch, attempt);
  }

 private:
  Fields fields_;
  HeadArgument head_;
  std::mutex mutex_;
  SessionMerger merger_;
};

}  // namespace

void bind_session_merger(nb::module_& m) {
  nb::class_<SessionMergerFace>(m, "SessionMerger", "Parts of sessions out of many blocks, put together.")
      .def(nb::init<const PlanFace&, int64_t, int64_t, int64_t, uint64_t, uint64_t>(), nb::arg("plan"), nb::arg("pane"),
           nb::arg("evicted_us"), nb::arg("closing_us"), nb::arg("prefix_lo") = 0,
           nb::arg("prefix_hi") = uint64_t{1} << 32)
      .def("add", &SessionMergerFace::add, nb::arg("head"), nb::arg("offset"), nb::arg("buffer"),
           "Takes the segments of a block that `buffer`, which starts `offset` bytes into the block, holds whole.")
      .def("next", &SessionMergerFace::next, nb::arg("max_rows") = 65536, "The next rows, or None at the end.")
      .def("seal", &SessionMergerFace::seal, nb::arg("arena"), nb::arg("query"), nb::arg("epoch"), nb::arg("attempt"),
           "Writes the sessions into the plan's place, as a published block, and returns its head.");
}

}  // namespace pyslash::python
