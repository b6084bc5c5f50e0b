// The native methods of io.pyslash.core.Native that merge: blocks of mapped arenas in, addresses of columns out.
#include "pyslash/merge.h"

#include <jni.h>

#include <optional>

#include "arenas.h"
#include "boundary.h"
#include "columns.h"
#include "pyslash/block.h"

namespace pyslash::jvm {
namespace {

// A merger, what it reads, and the batch that Java looks at.
struct GuardedMerger {
  GuardedMerger(std::shared_ptr<const Plan> plan, std::span<const int64_t> starts, uint64_t prefix_lo,
                uint64_t prefix_hi, std::optional<int64_t> changed_in)
      : merger(std::move(plan), starts, prefix_lo, prefix_hi, changed_in) {}
  std::mutex mutex;
  std::vector<std::shared_ptr<Arena>> arenas;  // stay mapped while the merger lives
  Merger merger;
  std::optional<RecordBatch> batch;
};

// Leaked on purpose: the JVM may still run tasks while static destructors run.
Handles<GuardedMerger>& mergers() {
  static auto& handles = *new Handles<GuardedMerger>("merger");
  return handles;
}

}  // namespace
}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_createMerger(JNIEnv* env, jclass, jbyteArray plan_text,
                                                                 jlongArray window_starts, jlong prefix_lo,
                                                                 jlong prefix_hi, jlong changed_in) {
  return guarded<jlong>(env, [&] {
    auto plan = std::make_shared<const Plan>(Plan::parse(text_of(env, plan_text, "plan")));
    const auto starts = longs_of(env, window_starts, "the windows");
    return mergers().put(std::make_shared<GuardedMerger>(std::move(plan), starts, static_cast<uint64_t>(prefix_lo),
                                                         static_cast<uint64_t>(prefix_hi),
                                                         changed_in < 0 ? std::nullopt : std::optional(changed_in)));
  });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_addBlock(JNIEnv* env, jclass, jlong handle, jbyteArray raw_head,
                                                             jlong arena, jlong place) {
  return guarded<jlong>(env, [&] {
    const Head head = read_head(bytes_of(env, raw_head, "head"));
    const auto mapped = arenas().get(arena);
    const Bytes bytes = block_in(*mapped, head, place);
    const auto guarded = mergers().get(handle);
    const std::lock_guard lock(guarded->mutex);
    guarded->arenas.push_back(mapped);
    return static_cast<jlong>(guarded->merger.add(head, 0, bytes));
  });
}

JNIEXPORT jlongArray JNICALL Java_io_pyslash_core_Native_nextRows(JNIEnv* env, jclass, jlong handle, jlong max_rows) {
  return guarded<jlongArray>(env, [&]() -> jlongArray {
    if (max_rows < 0) throw Error(Status::invalid_input, "max_rows must be positive");
    const auto guarded = mergers().get(handle);
    const std::lock_guard lock(guarded->mutex);
    guarded->batch.reset();  // its memory serves the next one
    guarded->batch = guarded->merger.next(static_cast<size_t>(max_rows));
    return guarded->batch ? addresses_of(env, *guarded->batch) : nullptr;
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeMerger(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { mergers().close(handle); });
}

}  // extern "C"
