// What this JVM keeps of queries from epoch to epoch: by query and range of hash prefixes.
#pragma once

#include <jni.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "blocks.h"
#include "boundary.h"
#include "pyslash/home.h"
#include "pyslash/plan.h"

namespace pyslash::jvm {

template <typename Home>
struct Guarded {
  explicit Guarded(Home of) : home(std::move(of)) {}
  std::mutex mutex;
  Home home;
};

template <typename Home>
class Homes {
 public:
  // That of a range, to be brought to a version; `make` makes it where there is none, where it is of another plan, or
  // where somebody still reads it as of another version.
  template <typename Make>
  std::shared_ptr<Guarded<Home>> of(const std::string& query, uint64_t prefix_lo, uint64_t prefix_hi, const Plan& plan,
                                    const std::string& version, Make&& make) {
    const std::lock_guard lock(mutex_);
    Kept& kept = homes_[{query, prefix_lo, prefix_hi}];
    const bool is_read = kept.home.use_count() > 1 && kept.version != version;
    if (!kept.home || is_read || kept.home->home.plan().text() != plan.text()) {
      kept.home = std::make_shared<Guarded<Home>>(make());
    }
    kept.version = version;
    return kept.home;
  }

  void close(const std::string& query) {
    const std::lock_guard lock(mutex_);
    std::erase_if(homes_, [&](const auto& home) { return std::get<0>(home.first) == query; });
  }

 private:
  struct Kept {
    std::shared_ptr<Guarded<Home>> home;
    std::string version;  // that it was last asked for
  };
  std::mutex mutex_;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, Kept> homes_;
};

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
