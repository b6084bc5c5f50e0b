// The native methods of io.pyslash.core.Native that keep homes: groups that stay in this JVM from epoch to epoch.
#include "pyslash/home.h"

#include <jni.h>

#include <mutex>
#include <optional>

#include "blocks.h"
#include "boundary.h"
#include "columns.h"
#include "handles.h"
#include "homes.h"

namespace pyslash::jvm {
namespace {

// Leaked on purpose: the JVM may still run tasks while static destructors run.
KeptHomes<Home>& homes() {
  static auto& all = *new KeptHomes<Home>();
  return all;
}

// A task's reading of a home.
struct HomeRows {
  std::shared_ptr<Guarded<Home>> home;
  std::string version;
  Home::Cursor cursor;
  std::optional<RecordBatch> batch;  // that Java looks at
};

Handles<HomeRows>& rows_of_homes() {
  static auto& handles = *new Handles<HomeRows>("reader of a home");
  return handles;
}

}  // namespace
}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_openHome(JNIEnv* env, jclass, jbyteArray plan_text,
                                                             jbyteArray query, jlong prefix_lo, jlong prefix_hi,
                                                             jbyteArray before, jbyteArray version, jlong epoch,
                                                             jlong evicted_us, jlong pane, jlong closing_us,
                                                             jboolean changed_only, jboolean keeps, jobject source,
                                                             jlongArray told) {
  return guarded<jlong>(env, [&] {
    const Plan plan = Plan::parse(text_of(env, plan_text, "plan"));
    const HomeUpdate update{
        text_of(env, before, "state before"), text_of(env, version, "state"), epoch, evicted_us, pane, closing_us};
    const auto lo = static_cast<uint64_t>(prefix_lo);
    const auto hi = static_cast<uint64_t>(prefix_hi);
    const auto make = [&] { return Home(std::make_shared<const Plan>(plan), lo, hi); };
    const auto guarded = keeps == JNI_TRUE
                             ? homes().of(text_of(env, query, "query"), lo, hi, plan, update.version, make)
                             : std::make_shared<Guarded<Home>>(make());
    advance(env, *guarded, update, source, told);
    const jlong groups = [&] {
      const std::lock_guard lock(guarded->mutex);
      return static_cast<jlong>(guarded->home.groups());
    }();
    env->SetLongArrayRegion(told, 1, 1, &groups);
    if (env->ExceptionCheck()) throw JavaExceptionPending{};
    return rows_of_homes().put(std::make_shared<HomeRows>(
        HomeRows{guarded, update.version, {.changed_only = changed_only == JNI_TRUE}, std::nullopt}));
  });
}

JNIEXPORT jlongArray JNICALL Java_io_pyslash_core_Native_nextHomeRows(JNIEnv* env, jclass, jlong handle,
                                                                      jlong max_rows) {
  return guarded<jlongArray>(env, [&]() -> jlongArray {
    const auto rows = rows_of_homes().get(handle);
    const std::lock_guard lock(rows->home->mutex);
    if (rows->home->home.version() != rows->version) {
      throw Error(Status::invalid_input, "the home holds another epoch by now; run the task again");
    }
    rows->batch.reset();  // its memory serves the next one
    rows->batch = rows->home->home.next(rows->cursor, static_cast<size_t>(max_rows));
    return rows->batch ? addresses_of(env, *rows->batch) : nullptr;
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeHomeRows(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { rows_of_homes().close(handle); });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeHomes(JNIEnv* env, jclass, jbyteArray query) {
  guarded<void>(env, [&] {
    const std::string of = text_of(env, query, "query");
    homes().close(of);
    close_joins(of);
  });
}

}  // extern "C"
