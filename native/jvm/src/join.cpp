// The native methods of io.pyslash.core.Native that join two streams: blocks of mapped arenas in, rows' addresses out.
#include "pyslash/join.h"

#include <jni.h>

#include "blocks.h"
#include "boundary.h"
#include "handles.h"
#include "homes.h"

namespace pyslash::jvm {
namespace {

// Leaked on purpose: the JVM may still run tasks while static destructors run.
KeptHomes<JoinHome>& joins() {
  static auto& all = *new KeptHomes<JoinHome>();
  return all;
}

// A task's reading of a join. Java looks at the pairs until it asks for more.
struct JoinReader {
  std::shared_ptr<Guarded<JoinHome>> join;
  std::string version;
  JoinHome::Cursor cursor;
  std::vector<RowPair> pairs;
};

Handles<JoinReader>& readers() {
  static auto& handles = *new Handles<JoinReader>("reader of a join");
  return handles;
}

}  // namespace

void close_joins(const std::string& query) { joins().close(query); }

}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_openJoin(JNIEnv* env, jclass, jbyteArray plan_text,
                                                             jbyteArray query, jlong prefix_lo, jlong prefix_hi,
                                                             jbyteArray before, jbyteArray version, jlong epoch,
                                                             jlong evicted_us, jlong closing_us, jboolean left_outer,
                                                             jboolean right_outer, jboolean remembers,
                                                             jbyteArray left_shape, jbyteArray right_shape,
                                                             jboolean keeps, jobject source, jlongArray bytes_read) {
  return guarded<jlong>(env, [&] {
    const auto plan = std::make_shared<const Plan>(Plan::parse(text_of(env, plan_text, "plan")));
    const HomeUpdate update{
        text_of(env, before, "state before"), text_of(env, version, "state"), epoch, evicted_us, 0, closing_us};
    const auto lo = static_cast<uint64_t>(prefix_lo);
    const auto hi = static_cast<uint64_t>(prefix_hi);
    const JoinKind kind{left_outer == JNI_TRUE, right_outer == JNI_TRUE, remembers == JNI_TRUE};
    const JoinShapes shapes{RowShape::parse(text_of(env, left_shape, "left rows")),
                            RowShape::parse(text_of(env, right_shape, "right rows"))};
    const auto make = [&] { return JoinHome(plan, lo, hi, kind, shapes); };
    const auto guarded = keeps == JNI_TRUE
                             ? joins().of(text_of(env, query, "query"), lo, hi, *plan, update.version, make)
                             : std::make_shared<Guarded<JoinHome>>(make());
    const JoinShapes& known = guarded->home.shapes();
    if (known.left.text() != shapes.left.text() || known.right.text() != shapes.right.text()) {
      throw Error(Status::invalid_plan, "rows of other columns are kept for this join");
    }
    advance(env, *guarded, update, source, bytes_read);
    return readers().put(std::make_shared<JoinReader>(JoinReader{guarded, update.version, {}, {}}));
  });
}

JNIEXPORT jlongArray JNICALL Java_io_pyslash_core_Native_nextPairs(JNIEnv* env, jclass, jlong handle, jlong most) {
  return guarded<jlongArray>(env, [&]() -> jlongArray {
    const auto reader = readers().get(handle);
    const std::lock_guard lock(reader->join->mutex);
    if (reader->join->home.version() != reader->version) {
      throw Error(Status::invalid_input, "the join is of another epoch by now; run the task again");
    }
    const JoinPhase phase = reader->join->home.next(reader->cursor, static_cast<size_t>(most), reader->pairs);
    if (phase == JoinPhase::done) return nullptr;
    const jlong numbers[] = {static_cast<jlong>(phase), static_cast<jlong>(reader->pairs.size()),
                             reinterpret_cast<jlong>(reader->pairs.data())};
    jlongArray given = env->NewLongArray(std::size(numbers));
    if (given == nullptr) throw JavaExceptionPending{};
    env->SetLongArrayRegion(given, 0, std::size(numbers), numbers);
    return given;
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeJoin(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { readers().close(handle); });
}

}  // extern "C"
