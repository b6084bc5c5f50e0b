#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <deque>

#include "buffer_view.h"
#include "calls.h"
#include "pyslash/merge.h"

namespace pyslash::python {
namespace {

class MergerFace {
 public:
  MergerFace(const PlanFace& plan, const std::vector<int64_t>& windows, uint64_t prefix_lo, uint64_t prefix_hi,
             std::optional<int64_t> changed_in)
      : fields_(std::make_shared<const std::vector<ResultField>>(result_fields(*plan.plan))),
        merger_(plan.plan, windows, prefix_lo, prefix_hi, changed_in) {}

  void add(const nb::object& head, uint64_t offset, const nb::object& buffer) {
    const nb::object parsed = head_.parse(head);
    const Head& parsed_head = nb::cast<const HeadFace&>(parsed).head;
    const BufferView& view = buffers_.emplace_back(buffer);
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    merger_.add(parsed_head, offset, view.bytes());
  }

  std::optional<RecordBatchFace> next(size_t max_rows) { return next_rows(merger_, mutex_, fields_, max_rows); }

 private:
  Fields fields_;
  std::deque<BufferView> buffers_;  // what the merger reads
  HeadArgument head_;
  std::mutex mutex_;
  Merger merger_;
};

}  // namespace

void bind_merger(nb::module_& m) {
  nb::class_<MergerFace>(m, "Merger", "Partial groups of many blocks into rows of windows.")
      .def(nb::init<const PlanFace&, const std::vector<int64_t>&, uint64_t, uint64_t, std::optional<int64_t>>(),
           nb::arg("plan"), nb::arg("window_starts"), nb::arg("prefix_lo") = 0,
           nb::arg("prefix_hi") = uint64_t{1} << 32, nb::arg("changed_in") = nb::none())
      .def("add", &MergerFace::add, nb::arg("head"), nb::arg("offset"), nb::arg("buffer"),
           "Adds the segments of a block that `buffer`, which starts `offset` bytes into the block, holds whole.")
      .def("next", &MergerFace::next, nb::arg("max_rows") = 65536, "The next rows, or None at the end.");
}

}  // namespace pyslash::python
