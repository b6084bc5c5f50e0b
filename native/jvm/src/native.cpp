// The native methods of io.pyslash.core.Native.
#include <fcntl.h>
#include <jni.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "arenas.h"
#include "boundary.h"
#include "pyslash/arena.h"
#include "pyslash/plan.h"
#include "pyslash/update.h"

namespace pyslash::jvm {
namespace {

// Tasks use one accumulator from one thread; the lock makes any other use slow instead of fatal.
struct GuardedAccumulator {
  GuardedAccumulator(std::shared_ptr<const Plan> plan, int64_t watermark_us, int64_t epoch, int64_t partition)
      : update(std::move(plan), watermark_us, epoch, partition) {}
  std::mutex mutex;
  Update update;
};

// Leaked on purpose: the JVM may still run tasks while static destructors run.
Handles<GuardedAccumulator>& accumulators() {
  static auto& handles = *new Handles<GuardedAccumulator>("accumulator");
  return handles;
}

Id128 id_of(JNIEnv* env, jbyteArray array, const char* what) {
  const auto bytes = bytes_of(env, array, what);
  Id128 id;
  if (bytes.size() != id.size()) {
    throw Error(Status::invalid_input, std::string(what) + " has " + std::to_string(bytes.size()) + " bytes, not 16");
  }
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

struct Descriptor {
  explicit Descriptor(const std::string& path) : fd(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (fd < 0) throw Error(Status::stale_incarnation, "cannot open the arena " + path + ": " + std::strerror(errno));
  }
  ~Descriptor() { close(fd); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

}  // namespace

Handles<Arena>& arenas() {
  static auto& handles = *new Handles<Arena>("arena");
  return handles;
}

Bytes block_in(const Arena& arena, const Head& head, int64_t place) {
  if (place != in_its_arena) return arena.view(static_cast<uint64_t>(place), head.header.length);
  if (head.header.incarnation != arena.incarnation()) {
    throw Error(Status::stale_incarnation, "the block of epoch " + std::to_string(head.header.epoch) +
                                               " lies in another arena than the one that is mapped");
  }
  return arena.view(head.header.arena_offset, head.header.length);
}

}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jint JNICALL Java_io_pyslash_core_Native_fields(JNIEnv* env, jclass, jbyteArray plan_text) {
  return guarded<jint>(
      env, [&] { return static_cast<jint>(Plan::parse(text_of(env, plan_text, "plan")).columns().size()); });
}

JNIEXPORT jint JNICALL Java_io_pyslash_core_Native_fixedRowBytes(JNIEnv* env, jclass, jbyteArray plan_text) {
  return guarded<jint>(
      env, [&] { return static_cast<jint>(Plan::parse(text_of(env, plan_text, "plan")).fixed_row_bytes()); });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_createAccumulator(JNIEnv* env, jclass, jbyteArray plan_text,
                                                                      jlong watermark_us, jlong epoch,
                                                                      jlong partition) {
  return guarded<jlong>(env, [&] {
    auto plan = std::make_shared<const Plan>(Plan::parse(text_of(env, plan_text, "plan")));
    return accumulators().put(std::make_shared<GuardedAccumulator>(std::move(plan), watermark_us, epoch, partition));
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_add(JNIEnv* env, jclass, jlong handle, jlong page, jlong bytes,
                                                       jlong rows) {
  guarded<void>(env, [&] {
    if (page == 0 || bytes < 0 || rows < 0) throw Error(Status::invalid_input, "a page needs an address and sizes");
    const auto guarded = accumulators().get(handle);
    const std::lock_guard lock(guarded->mutex);
    guarded->update.add_rows(reinterpret_cast<const uint8_t*>(page), static_cast<size_t>(bytes),
                             static_cast<size_t>(rows));
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_addValues(JNIEnv* env, jclass, jlong handle, jlongArray columns,
                                                             jlong rows) {
  guarded<void>(env, [&] {
    const auto guarded = accumulators().get(handle);
    const std::lock_guard lock(guarded->mutex);
    const std::vector<Column>& wanted = guarded->update.plan().columns();
    std::vector<jlong> numbers(3 * wanted.size());
    if (rows < 0 || columns == nullptr || env->GetArrayLength(columns) != static_cast<jsize>(numbers.size())) {
      throw Error(Status::invalid_input, "columns of values need an address, one of their nulls, and a width each");
    }
    env->GetLongArrayRegion(columns, 0, static_cast<jsize>(numbers.size()), numbers.data());
    std::vector<BatchColumn> values;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Type& type = wanted[i].type;
      const size_t width = type.is_variable() ? sizeof(BytesRef) : type.width();
      if (numbers[3 * i] == 0 || static_cast<size_t>(numbers[3 * i + 2]) != width) {
        throw Error(Status::invalid_input, "column " + std::to_string(i) + " has values of " +
                                               std::to_string(numbers[3 * i + 2]) + " bytes where the plan has " +
                                               type.name());
      }
      values.push_back({type, reinterpret_cast<const uint8_t*>(numbers[3 * i + 1]),
                        reinterpret_cast<const uint8_t*>(numbers[3 * i])});
    }
    guarded->update.add_values(values, static_cast<size_t>(rows));
  });
}

JNIEXPORT jbyteArray JNICALL Java_io_pyslash_core_Native_seal(JNIEnv* env, jclass, jlong handle, jlong arena,
                                                              jbyteArray query, jlong epoch, jlong attempt) {
  return guarded<jbyteArray>(env, [&] {
    const BlockIdentity identity{id_of(env, query, "query id"), epoch, attempt};
    const auto guarded = accumulators().get(handle);
    const auto mapped = arenas().get(arena);
    const std::lock_guard lock(guarded->mutex);
    const auto head = guarded->update.seal(*mapped, identity);
    return to_java(env, head.data(), head.size());
  });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_rows(JNIEnv* env, jclass, jlong handle) {
  return guarded<jlong>(env, [&] {
    const auto guarded = accumulators().get(handle);
    const std::lock_guard lock(guarded->mutex);
    return static_cast<jlong>(guarded->update.rows());
  });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_lateRows(JNIEnv* env, jclass, jlong handle) {
  return guarded<jlong>(env, [&] {
    const auto guarded = accumulators().get(handle);
    const std::lock_guard lock(guarded->mutex);
    return static_cast<jlong>(guarded->update.late_rows());
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeAccumulator(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { accumulators().close(handle); });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_openArena(JNIEnv* env, jclass, jstring path,
                                                              jbyteArray incarnation) {
  return guarded<jlong>(env, [&] {
    const auto id = id_of(env, incarnation, "incarnation");
    const Descriptor file(text_of(env, path, "path"));
    return arenas().put(std::make_shared<Arena>(Arena::attach(file.fd, id)));
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeArena(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { arenas().close(handle); });
}

JNIEXPORT jlongArray JNICALL Java_io_pyslash_core_Native_blockRanges(JNIEnv* env, jclass, jbyteArray raw_head,
                                                                     jlong pane_lo, jlong pane_hi, jlong prefix_lo,
                                                                     jlong prefix_hi) {
  return guarded<jlongArray>(env, [&]() -> jlongArray {
    const Head head = read_head(bytes_of(env, raw_head, "head"));
    std::vector<jlong> numbers{static_cast<jlong>(head.header.arena_offset), static_cast<jlong>(head.header.length),
                               head.header.epoch};
    for (const ByteRange& range :
         ranges(head, pane_lo, pane_hi, static_cast<uint64_t>(prefix_lo), static_cast<uint64_t>(prefix_hi))) {
      numbers.push_back(static_cast<jlong>(range.offset));
      numbers.push_back(static_cast<jlong>(range.length));
    }
    jlongArray given = env->NewLongArray(static_cast<jsize>(numbers.size()));
    if (given == nullptr) throw JavaExceptionPending{};
    env->SetLongArrayRegion(given, 0, static_cast<jsize>(numbers.size()), numbers.data());
    return given;
  });
}

JNIEXPORT jint JNICALL Java_io_pyslash_core_Native_openDirectory(JNIEnv* env, jclass, jstring path) {
  return guarded<jint>(env, [&] {
    const std::string folder = text_of(env, path, "path");
    const int fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw Error(Status::invalid_input, "cannot open the folder " + folder + ": " + std::strerror(errno));
    return fd;
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeDirectory(JNIEnv*, jclass, jint fd) { close(fd); }

}  // extern "C"
