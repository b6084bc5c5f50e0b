// The border between C++ and Java: every native method runs inside `guarded`, so no C++ exception and no wrong handle
// gets past it as anything but an io.pyslash.core.SlashException.
#pragma once

#include <jni.h>

#include <string>
#include <utility>
#include <vector>

#include "pyslash/error.h"

namespace pyslash::jvm {

// A Java exception is pending; unwinds to the native method, which returns to Java at once.
struct JavaExceptionPending {};

void throw_slash_exception(JNIEnv* env, const char* error_class, const char* message) noexcept;
// For use inside a catch block: turns the exception in flight into a pending Java exception.
void throw_current(JNIEnv* env) noexcept;

template <typename Result, typename Body>
Result guarded(JNIEnv* env, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    throw_current(env);
    return Result();
  }
}

// Contents of Java arrays and strings, copied. Status::invalid_input for null.
std::vector<uint8_t> bytes_of(JNIEnv* env, jbyteArray array, const char* what);
std::vector<int64_t> longs_of(JNIEnv* env, jlongArray array, const char* what);
std::string text_of(JNIEnv* env, jbyteArray array, const char* what);
std::string text_of(JNIEnv* env, jstring string, const char* what);
jbyteArray to_java(JNIEnv* env, const void* data, size_t size);

}  // namespace pyslash::jvm
