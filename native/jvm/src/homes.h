// The homes of this JVM, brought to the version of an epoch.
#pragma once

#include <jni.h>

#include <mutex>
#include <string>

#include "blocks.h"
#include "boundary.h"
#include "pyslash/home.h"
#include "pyslash/kept_homes.h"

namespace pyslash::jvm {

// Brings a home to a version, unless another task has, by the blocks of `source`, an io.pyslash.core.BlockSource; the
// bytes read of them go into the first place of `bytes_read`, a long[].
template <typename Home>
void advance(JNIEnv* env, Guarded<Home>& guarded, const HomeUpdate& update, jobject source, jlongArray bytes_read) {
  jlong bytes = 0;
  {
    const std::lock_guard lock(guarded.mutex);
    if (guarded.home.version() != update.version) {
      // What it reads is brought under the lock: another task may bring the home elsewhere in between.
      const Blocks blocks(env, source, !guarded.home.follows(update));
      bytes = static_cast<jlong>(guarded.home.advance(update, blocks.all()));
    }
  }
  env->SetLongArrayRegion(bytes_read, 0, 1, &bytes);
  if (env->ExceptionCheck()) throw JavaExceptionPending{};
}

// Forgets what is kept of a query's joins.
void close_joins(const std::string& query);

}  // namespace pyslash::jvm
