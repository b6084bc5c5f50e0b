#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <mutex>

#include "buffer_view.h"
#include "faces.h"
#include "module.h"
#include "pyslash/merge.h"
#include "record_batch.h"

namespace pyslash::python {
namespace {

class MergerFace {
 public:
  MergerFace(const PlanFace& plan, const std::vector<int64_t>& windows, uint64_t prefix_lo, uint64_t prefix_hi,
             std::optional<int64_t> changed_in)
      : fields_(std::make_shared<const std::vector<ResultField>>(result_fields(*plan.plan))),
        merger_(plan.plan, windows, prefix_lo, prefix_hi, changed_in) {}

  void add(const nb::object& head, uint64_t offset, const nb::object& buffer) {
    const nb::object parsed = parse(head);
    const Head& parsed_head = nb::cast<const HeadFace&>(parsed).head;
    const BufferView& view = buffers_.emplace_back(buffer);
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    merger_.add(parsed_head, offset, view.bytes());
  }

  std::optional<RecordBatchFace> next(size_t max_rows) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    std::optional<RecordBatch> batch = merger_.next(max_rows);
    if (!batch) return std::nullopt;
    return RecordBatchFace{fields_, std::make_shared<const RecordBatch>(std::move(*batch))};
  }

  void rewind() {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    merger_.rewind();
  }

 private:
  // A block is often added in many ranges: the head of the last call is kept, and is not parsed again for the next.
  nb::object parse(const nb::object& head) {
    if (nb::isinstance<HeadFace>(head)) return head;
    if (!head.is(last_)) {
      last_head_ = nb::type<HeadFace>()(head);
      last_ =
          nb::isinstance<nb::bytes>(head) ? head : nb::none();  // bytes do not change: the same object, the same head
    }
    return last_head_;
  }

  Fields fields_;
  std::deque<BufferView> buffers_;  // what the merger reads
  nb::object last_ = nb::none();
  nb::object last_head_ = nb::none();
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
      .def("next", &MergerFace::next, nb::arg("max_rows") = 65536, "The next rows, or None at the end.")
      .def("rewind", &MergerFace::rewind, "Back to the first row.");
}

}  // namespace pyslash::python
