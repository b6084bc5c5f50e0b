// Calls that several Python classes have.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "faces.h"
#include "identity.h"
#include "module.h"
#include "record_batch.h"

namespace pyslash::python {

// A block is often added in many ranges: the head of the last call is kept, and is not parsed again for the next.
class HeadArgument {
 public:
  // A HeadFace; hold it as long as its head is looked at.
  nb::object parse(const nb::object& head) {
    if (nb::isinstance<HeadFace>(head)) return head;
    if (!head.is(last_)) {
      last_head_ = nb::type<HeadFace>()(head);
      last_ =
          nb::isinstance<nb::bytes>(head) ? head : nb::none();  // bytes do not change: the same object, the same head
    }
    return last_head_;
  }

 private:
  nb::object last_ = nb::none();
  nb::object last_head_ = nb::none();
};

// The next rows of a merger.
template <typename Merger>
std::optional<RecordBatchFace> next_rows(Merger& merger, std::mutex& mutex, const Fields& fields, size_t max_rows) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(mutex);
  std::optional<RecordBatch> batch = merger.next(max_rows);
  if (!batch) return std::nullopt;
  return RecordBatchFace{fields, std::make_shared<const RecordBatch>(std::move(*batch))};
}

// What `groups` hold, as a published block; its head.
template <typename Groups>
nb::bytes seal_into(Groups& groups, std::mutex& mutex, const ArenaFace& arena, const nb::bytes& query, int64_t epoch,
                    int64_t attempt) {
  const BlockIdentity identity{identity_of(query, "the query"), epoch, attempt};
  std::vector<uint8_t> head;
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex);
    Arena target = arena.arena();
    head = groups.seal(target, identity);
  }
  return to_bytes(head);
}

}  // namespace pyslash::python
