// The native methods of io.pyslash.Native that keep homes: groups that stay in this JVM from epoch to epoch.
#include "pyslash/home.h"

#include <jni.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "arenas.h"
#include "boundary.h"
#include "columns.h"
#include "pyslash/block.h"

namespace pyslash::jvm {
namespace {

struct GuardedHome {
  explicit GuardedHome(Home of) : home(std::move(of)) {}
  std::mutex mutex;
  Home home;
};

// The homes of this JVM: by query and range of hash prefixes.
class Homes {
 public:
  std::shared_ptr<GuardedHome> of(const std::string& query, uint64_t prefix_lo, uint64_t prefix_hi, const Plan& plan) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<GuardedHome>& home = homes_[{query, prefix_lo, prefix_hi}];
    if (!home || home->home.plan().text() != plan.text()) {
      home = std::make_shared<GuardedHome>(Home(std::make_shared<const Plan>(plan), prefix_lo, prefix_hi));
    }
    return home;
  }

  void close(const std::string& query) {
    const std::lock_guard lock(mutex_);
    std::erase_if(homes_, [&](const auto& home) { return std::get<0>(home.first) == query; });
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, std::shared_ptr<GuardedHome>> homes_;
};

// Leaked on purpose: the JVM may still run tasks while static destructors run.
Homes& homes() {
  static auto& all = *new Homes();
  return all;
}

// A task's reading of a home.
struct HomeRows {
  std::shared_ptr<GuardedHome> home;
  std::string version;
  Home::Cursor cursor;
  std::optional<RecordBatch> batch;  // that Java looks at
};

Handles<HomeRows>& rows_of_homes() {
  static auto& handles = *new Handles<HomeRows>("reader of a home");
  return handles;
}

// Blocks, in the arenas that they lie in.
class Blocks {
 public:
  Blocks(JNIEnv* env, jobjectArray heads, jlongArray handles) {
    const std::vector<int64_t> of = longs_of(env, handles, "the arenas");
    const auto count = static_cast<jsize>(of.size());
    if (heads == nullptr || env->GetArrayLength(heads) != count) {
      throw Error(Status::invalid_input, "there must be an arena for each head");
    }
    heads_.reserve(of.size());
    for (jsize i = 0; i < count; ++i) {
      const auto raw = static_cast<jbyteArray>(env->GetObjectArrayElement(heads, i));
      if (env->ExceptionCheck()) throw JavaExceptionPending{};
      const Head& head = heads_.emplace_back(read_head(bytes_of(env, raw, "head")));
      env->DeleteLocalRef(raw);
      const auto& arena = arenas_.emplace_back(arenas().get(of[static_cast<size_t>(i)]));
      blocks_.push_back({&head, block_in(*arena, head)});
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  std::span<const MappedBlock> all() const { return blocks_; }

 private:
  std::vector<Head> heads_;
  std::vector<std::shared_ptr<Arena>> arenas_;  // stay mapped
  std::vector<MappedBlock> blocks_;
};

}  // namespace
}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_Native_openHome(JNIEnv* env, jclass, jbyteArray plan_text, jbyteArray query,
                                                        jlong prefix_lo, jlong prefix_hi, jbyteArray before,
                                                        jbyteArray version, jlong epoch, jlong evicted_us, jlong pane,
                                                        jlong closing_us, jboolean changed_only, jobjectArray heads,
                                                        jlongArray arenas, jlongArray bytes_read) {
  return guarded<jlong>(env, [&] {
    const Plan plan = Plan::parse(text_of(env, plan_text, "plan"));
    const HomeUpdate update{
        text_of(env, before, "state before"), text_of(env, version, "state"), epoch, evicted_us, pane, closing_us};
    const auto guarded = homes().of(text_of(env, query, "query"), static_cast<uint64_t>(prefix_lo),
                                    static_cast<uint64_t>(prefix_hi), plan);
    jlong bytes = 0;
    {
      const std::lock_guard lock(guarded->mutex);
      if (guarded->home.version() != update.version) {
        const Blocks blocks(env, heads, arenas);
        bytes = static_cast<jlong>(guarded->home.advance(update, blocks.all()));
      }
    }
    env->SetLongArrayRegion(bytes_read, 0, 1, &bytes);
    if (env->ExceptionCheck()) throw JavaExceptionPending{};
    return rows_of_homes().put(std::make_shared<HomeRows>(
        HomeRows{guarded, update.version, {.changed_only = changed_only == JNI_TRUE}, std::nullopt}));
  });
}

JNIEXPORT jlongArray JNICALL Java_io_pyslash_Native_nextHomeRows(JNIEnv* env, jclass, jlong handle, jlong max_rows) {
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

JNIEXPORT void JNICALL Java_io_pyslash_Native_closeHomeRows(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { rows_of_homes().close(handle); });
}

JNIEXPORT void JNICALL Java_io_pyslash_Native_closeHomes(JNIEnv* env, jclass, jbyteArray query) {
  guarded<void>(env, [&] { homes().close(text_of(env, query, "query")); });
}

}  // extern "C"
