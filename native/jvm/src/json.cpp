// Records of JSON: the native methods of io.pyslash.Native that read them.
#include "pyslash/json.h"

#include <jni.h>

#include "boundary.h"
#include "handles.h"

namespace pyslash::jvm {
namespace {

// As Java reads it: the bytes of the last record's row, and where they are.
struct RowAnswer {
  int64_t size = 0;
  int64_t address = 0;
};

struct GuardedJsonReader {
  explicit GuardedJsonReader(std::string_view schema) : reader(schema) {}
  std::mutex mutex;
  JsonReader reader;
  RowAnswer answer;
};

Handles<GuardedJsonReader>& readers() {
  static auto& handles = *new Handles<GuardedJsonReader>("reader of JSON");
  return handles;
}

}  // namespace
}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_Native_createJsonReader(JNIEnv* env, jclass, jbyteArray schema) {
  return guarded<jlong>(
      env, [&] { return readers().put(std::make_shared<GuardedJsonReader>(text_of(env, schema, "schema"))); });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_Native_readJson(JNIEnv* env, jclass, jlong handle, jlong record, jlong bytes) {
  return guarded<jlong>(env, [&]() -> jlong {
    if (record == 0 || bytes < 0) throw Error(Status::invalid_input, "a record needs an address and a size");
    const auto guarded = readers().get(handle);
    const std::lock_guard lock(guarded->mutex);
    const auto row = guarded->reader.read({reinterpret_cast<const uint8_t*>(record), static_cast<size_t>(bytes)});
    if (!row) return 0;
    guarded->answer = {static_cast<int64_t>(row->size()), reinterpret_cast<int64_t>(row->data())};
    return reinterpret_cast<jlong>(&guarded->answer);
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_Native_closeJsonReader(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { readers().close(handle); });
}

}  // extern "C"
