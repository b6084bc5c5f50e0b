// The native methods of io.pyslash.core.Native that look at rows of Spark's before Spark does.
#include <jni.h>

#include "boundary.h"
#include "handles.h"
#include "pyslash/row_shape.h"

namespace pyslash::jvm {
namespace {

Handles<const RowShape>& shapes() {
  static auto& handles = *new Handles<const RowShape>("shape of rows");
  return handles;
}

}  // namespace
}  // namespace pyslash::jvm

using namespace pyslash;
using namespace pyslash::jvm;

extern "C" {

JNIEXPORT jlong JNICALL Java_io_pyslash_core_Native_rowShape(JNIEnv* env, jclass, jbyteArray text) {
  return guarded<jlong>(env, [&] {
    return shapes().put(std::make_shared<const RowShape>(RowShape::parse(text_of(env, text, "shape"))));
  });
}

JNIEXPORT void JNICALL Java_io_pyslash_core_Native_checkRow(JNIEnv* env, jclass, jlong handle, jbyteArray bytes,
                                                            jint offset, jint length) {
  guarded<void>(env, [&] {
    const auto shape = shapes().get(handle);
    if (bytes == nullptr || offset < 0 || length < 0 || length > env->GetArrayLength(bytes) - offset) {
      throw Error(Status::corrupt_block, "bytes that are no row of Spark's: they end too early");
    }
    auto* data = static_cast<uint8_t*>(env->GetPrimitiveArrayCritical(bytes, nullptr));
    if (data == nullptr) throw JavaExceptionPending{};
    // Nothing of Java's may be called until the array is let go of.
    try {
      shape->check({data + offset, static_cast<size_t>(length)});
    } catch (...) {
      env->ReleasePrimitiveArrayCritical(bytes, data, JNI_ABORT);
      throw;
    }
    env->ReleasePrimitiveArrayCritical(bytes, data, JNI_ABORT);
  });
}

}  // extern "C"
