#include "boundary.h"

#include <limits>
#include <new>

namespace pyslash::jvm {

void throw_slash_exception(JNIEnv* env, const char* error_class, const char* message) noexcept {
  if (env->ExceptionCheck()) return;
  // Each failing step below leaves its own Java exception pending (a missing class, no memory), which serves as well.
  jclass type = env->FindClass("io/pyslash/core/SlashException");
  if (!type) return;
  jmethodID make = env->GetMethodID(type, "<init>", "(Ljava/lang/String;Ljava/lang/String;)V");
  if (!make) return;
  jstring name = env->NewStringUTF(error_class);
  jstring text = name ? env->NewStringUTF(message) : nullptr;
  if (!text) return;
  if (jobject exception = env->NewObject(type, make, name, text)) env->Throw(static_cast<jthrowable>(exception));
}

void throw_current(JNIEnv* env) noexcept {
  try {
    throw;
  } catch (const JavaExceptionPending&) {
  } catch (const Error& error) {
    throw_slash_exception(env, class_name(error.status()), error.what());
  } catch (const std::bad_alloc&) {
    throw_slash_exception(env, class_name(Status::internal),
                          "out of native memory; the executor needs more memoryOverhead");
  } catch (const std::exception& error) {
    throw_slash_exception(env, class_name(Status::internal), error.what());
  } catch (...) {
    throw_slash_exception(env, class_name(Status::internal), "an exception of unknown type");
  }
}

std::vector<uint8_t> bytes_of(JNIEnv* env, jbyteArray array, const char* what) {
  if (!array) throw Error(Status::invalid_input, std::string(what) + " is null");
  std::vector<uint8_t> bytes(static_cast<size_t>(env->GetArrayLength(array)));
  env->GetByteArrayRegion(array, 0, static_cast<jsize>(bytes.size()), reinterpret_cast<jbyte*>(bytes.data()));
  if (env->ExceptionCheck()) throw JavaExceptionPending{};
  return bytes;
}

std::vector<int64_t> longs_of(JNIEnv* env, jlongArray array, const char* what) {
  if (!array) throw Error(Status::invalid_input, std::string(what) + " is null");
  std::vector<int64_t> longs(static_cast<size_t>(env->GetArrayLength(array)));
  static_assert(sizeof(jlong) == sizeof(int64_t));
  env->GetLongArrayRegion(array, 0, static_cast<jsize>(longs.size()), reinterpret_cast<jlong*>(longs.data()));
  if (env->ExceptionCheck()) throw JavaExceptionPending{};
  return longs;
}

std::string text_of(JNIEnv* env, jbyteArray array, const char* what) {
  const auto bytes = bytes_of(env, array, what);
  return {bytes.begin(), bytes.end()};
}

std::string text_of(JNIEnv* env, jstring string, const char* what) {
  if (!string) throw Error(Status::invalid_input, std::string(what) + " is null");
  const char* chars = env->GetStringUTFChars(string, nullptr);
  if (!chars) throw JavaExceptionPending{};
  std::string text(chars);
  env->ReleaseStringUTFChars(string, chars);
  return text;
}

jbyteArray to_java(JNIEnv* env, const void* data, size_t size) {
  if (size > static_cast<size_t>(std::numeric_limits<jsize>::max())) {
    throw Error(Status::internal, "a receipt of " + std::to_string(size) + " bytes does not fit a Java array");
  }
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  if (!array) throw JavaExceptionPending{};
  env->SetByteArrayRegion(array, 0, static_cast<jsize>(size), static_cast<const jbyte*>(data));
  return array;
}

}  // namespace pyslash::jvm
