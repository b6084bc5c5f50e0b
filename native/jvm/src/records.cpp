// Records of text: the native methods of io.pyslash.core.Native that read them.
#include "pyslash/records.h"

#include <jni.h>

#include <vector>

#include "boundary.h"
#include "handles.h"

namespace pyslash::jvm {
namespace {

// As Java reads it: the bytes of the last record's row, and where they are.
struct RowAnswer {
  int64_t size = 0;
  int64_t address = 0;
};

struct GuardedReader {
  GuardedReader(std::string_view schema, bool sized) : reader(schema, sized) {}
  std::mutex mutex;
  RecordReader reader;
  RowAnswer answer;
  std::vector<int64_t> lines;  // as Java reads them: see Native.readLines
};

Handles<GuardedReader>& readers() {
  static auto& handles = *new Handles<GuardedReader>("reader of records");
  return handles;
}

}  // namespace
}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_createRecordReader(JNIEnv* env, jclass, jbyteArray schema,
                                                                       jboolean sized) {
  return guarded<jlong>(
      env, [&] { return readers().put(std::make_shared<GuardedReader>(text_of(env, schema, "schema"), sized != 0)); });
}

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_readRecord(JNIEnv* env, jclass, jlong handle, jlong record,
                                                               jlong bytes) {
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

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_readLines(JNIEnv* env, jclass, jlong handle, jlong page,
                                                              jlong bytes, jlong last_start, jboolean skips_first,
                                                              jboolean has_header, jboolean is_end, jboolean as_page) {
  return guarded<jlong>(env, [&]() -> jlong {
    if (page == 0 || bytes < 0 || last_start < 0)
      throw Error(Status::invalid_input, "a page needs an address and a size");
    const auto guarded = readers().get(handle);
    const std::lock_guard lock(guarded->mutex);
    const auto& found =
        guarded->reader.read_lines({.bytes = {reinterpret_cast<const uint8_t*>(page), static_cast<size_t>(bytes)},
                                    .last_start = static_cast<size_t>(last_start),
                                    .skips_first = skips_first != 0,
                                    .has_header = has_header != 0,
                                    .is_end = is_end != 0});
    auto& answer = guarded->lines;
    answer.clear();
    const auto put = [&](size_t number) { answer.push_back(static_cast<int64_t>(number)); };
    const auto put_bytes = [&](Bytes part) {
      put(part.size());
      answer.push_back(reinterpret_cast<int64_t>(part.data()));
    };
    put(found.consumed);
    put(found.is_full);
    put(found.lines.size());
    put(found.left);
    put_bytes(found.rows);
    put_bytes(found.header);
    if (as_page != 0 && found.left == 0) return reinterpret_cast<jlong>(answer.data());
    for (const auto& line : found.lines) {
      put_bytes(line.row);
      put_bytes(line.text);
      put(line.present);
    }
    return reinterpret_cast<jlong>(answer.data());
  });
}

JNIEXPORT jobject JNICALL Java_io_pyslash_core_Native_buffer(JNIEnv* env, jclass, jlong address, jlong bytes) {
  return env->NewDirectByteBuffer(reinterpret_cast<void*>(address), bytes);  // null: an exception is pending
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_closeRecordReader(JNIEnv* env, jclass, jlong handle) {
  guarded<void>(env, [&] { readers().close(handle); });
}

}  // extern "C"
