// Event times that windows can be computed of.
#pragma once

#include <cstdint>
#include <string>

#include "pyslash/error.h"
#include "pyslash/window.h"

namespace pyslash {

// Status::invalid_input if the time is out of range.
inline void check_time(const Window& window, int64_t time) {
  if (time < window.min_time() || time > window.max_time()) {
    throw Error(Status::invalid_input, "an event time of " + std::to_string(time) + " microseconds is out of range");
  }
}

}  // namespace pyslash
