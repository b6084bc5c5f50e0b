// The objects behind the Python classes. Calls release the GIL, so two threads may meet in one object: those that
// change carry a mutex.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/error.h"
#include "pyslash/plan.h"
#include "pyslash/update.h"

namespace pyslash::python {

struct PlanFace {
  std::shared_ptr<const Plan> plan;
};

struct HeadFace {
  Head head;
};

class ArenaFace {
 public:
  explicit ArenaFace(Arena arena) : arena_(std::move(arena)) {}

  // A copy of the handle, which keeps the memory mapped while a call uses it. Status::invalid_input once closed.
  Arena arena() const {
    const std::lock_guard lock(mutex_);
    if (!arena_) throw Error(Status::invalid_input, "the arena is closed");
    return *arena_;
  }
  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return !arena_;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    arena_.reset();
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Arena> arena_;
};

struct AccumulatorFace {
  AccumulatorFace(const PlanFace& plan, int64_t watermark_us, int64_t epoch, int64_t partition)
      : update(plan.plan, watermark_us, epoch, partition) {}

  mutable std::mutex mutex;
  Update update;
};

}  // namespace pyslash::python
