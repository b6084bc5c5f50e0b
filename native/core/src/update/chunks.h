// Bytes that grow at the end in pieces that never move: what is appended is written once, and once more where it goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace pyslash {

class Chunks {
 public:
  // There may be thousands of these objects: small at first, then large enough that their number does not matter.
  Chunks() = default;
  explicit Chunks(size_t first_bytes) : first_bytes_(first_bytes) {}

  uint64_t size() const { return size_; }

  // The memory that they take.
  uint64_t room() const {
    uint64_t bytes = 0;
    for (const Chunk& chunk : chunks_) bytes += chunk.room;
    return bytes;
  }

  // Room for `bytes` more in one piece; they are not initialised.
  uint8_t* extend(size_t bytes) {
    if (chunks_.empty() || chunks_.back().room - chunks_.back().used < bytes) add(bytes);
    Chunk& last = chunks_.back();
    uint8_t* at = last.data.get() + last.used;
    last.used += bytes;
    size_ += bytes;
    return at;
  }

  // All of them, in order, to `out`.
  void copy_to(uint8_t* out) const {
    for (const Chunk& chunk : chunks_) {
      std::memcpy(out, chunk.data.get(), chunk.used);
      out += chunk.used;
    }
  }

 private:
  struct Chunk {
    std::unique_ptr<uint8_t[]> data;
    size_t room;
    size_t used;
  };
  static constexpr size_t most_bytes = 256 << 10;

  void add(size_t bytes) {
    const size_t next = chunks_.empty() ? first_bytes_ : std::min(2 * chunks_.back().room, most_bytes);
    const size_t room = std::max(bytes, next);
    chunks_.push_back({std::make_unique_for_overwrite<uint8_t[]>(room), room, 0});
  }

  size_t first_bytes_ = 4096;
  std::vector<Chunk> chunks_;
  uint64_t size_ = 0;
};

}  // namespace pyslash
