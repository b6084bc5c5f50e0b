// Java's handles on native objects: numbers that are looked up, never addresses, and never given out twice. A wrong or
// closed handle is an error, and an object lives until the last call that uses it has returned.
#pragma once

#include <jni.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "pyslash/error.h"

namespace pyslash::jvm {

template <typename Object>
class Handles {
 public:
  explicit Handles(const char* what) : what_(what) {}

  jlong put(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    objects_.emplace(++last_, std::move(object));
    return last_;
  }

  std::shared_ptr<Object> get(jlong handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) {
      throw Error(Status::invalid_input, std::string("no ") + what_ + " has the handle " + std::to_string(handle));
    }
    return found->second;
  }

  void close(jlong handle) {
    std::shared_ptr<Object> last_reference;  // destroyed after the lock is let go
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return;
    last_reference = std::move(found->second);
    objects_.erase(found);
  }

 private:
  const char* what_;
  std::mutex mutex_;
  std::unordered_map<jlong, std::shared_ptr<Object>> objects_;
  jlong last_ = 0;
};

}  // namespace pyslash::jvm
