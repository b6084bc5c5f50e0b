// Bytes that stay where they are as long as their store lives.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "pyslash/column.h"

namespace pyslash {

class ValueStore {
 public:
  // A copy of the bytes.
  BytesRef keep(BytesRef bytes) {
    if (bytes.size == 0) return {};
    if (bytes.size > left_) {
      room_ = std::max(bytes.size, std::min(2 * room_, most_room));
      pieces_.push_back(std::make_unique_for_overwrite<uint8_t[]>(room_));
      at_ = pieces_.back().get();
      left_ = room_;
    }
    std::memcpy(at_, bytes.data, bytes.size);
    const BytesRef kept{at_, bytes.size};
    at_ += bytes.size;
    left_ -= bytes.size;
    return kept;
  }

 private:
  static constexpr size_t most_room = size_t{1} << 20;

  std::vector<std::unique_ptr<uint8_t[]>> pieces_;
  size_t room_ = 512;
  uint8_t* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace pyslash
