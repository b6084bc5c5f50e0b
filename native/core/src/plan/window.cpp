#include "pyslash/window.h"

#include <numeric>
#include <string>

#include "pyslash/error.h"

namespace pyslash {

Window::Window(int64_t size_us, int64_t slide_us, int64_t start_offset_us)
    : size_(size_us), slide_(slide_us), start_offset_(start_offset_us), pane_(1) {
  if (slide_us <= 0 || slide_us > size_us || size_us > max_size || start_offset_us > max_size ||
      start_offset_us < -max_size) {
    throw Error(Status::invalid_plan, "a window of size " + std::to_string(size_us) + ", slide " +
                                          std::to_string(slide_us) + " and offset " + std::to_string(start_offset_us) +
                                          " microseconds: 0 < slide <= size must hold");
  }
  pane_ = std::gcd(size_us, slide_us);
}

}  // namespace pyslash
