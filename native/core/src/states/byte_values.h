// One string or binary a group, or none.
#pragma once

#include <algorithm>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/column.h"
#include "pyslash/error.h"
#include "states/buffers.h"

namespace pyslash {

// Values lie in one byte arena; a group's room is reused when the next value fits, and doubles when it does not, so the
// arena holds at most a constant times the longest values.
class ByteValues {
 public:
  void resize(size_t groups) {
    values_.resize(groups);
    if (groups == 0) arena_.clear();
  }
  size_t size() const { return values_.size(); }
  bool present(size_t group) const { return values_[group].present; }
  // Empty if there is none.
  BytesRef operator[](size_t group) const { return {arena_.data() + values_[group].offset, values_[group].size}; }

  // `candidate` may lie in this very arena.
  void set(size_t group, BytesRef candidate) {
    // A segment's offsets are int32, and twice the size must fit the room.
    if (candidate.size > INT32_MAX) throw Error(Status::invalid_input, "a string of more than 2 GiB in a state");
    Value& value = values_[group];
    const auto size = static_cast<uint32_t>(candidate.size);
    if (size > value.room) {
      // The arena is about to move.
      const bool own =
          !arena_.empty() && candidate.data >= arena_.data() && candidate.data < arena_.data() + arena_.size();
      const size_t position = own ? static_cast<size_t>(candidate.data - arena_.data()) : 0;
      value.offset = arena_.size();
      value.room = value.present ? 2 * size : size;
      arena_.resize(arena_.size() + value.room);
      if (own) candidate.data = arena_.data() + position;
    }
    if (size != 0) std::memmove(arena_.data() + value.offset, candidate.data, size);
    value.size = size;
    value.present = true;
  }
  void clear(size_t group) {
    values_[group].size = 0;
    values_[group].present = false;
  }

  // A segment's buffers: a bitmap of the groups that have a value (absent: all), int32 offsets, bytes.
  static constexpr size_t buffers = 3;
  static std::vector<size_t> offset_buffers() { return {1}; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const {
    const uint64_t bytes = total(groups);
    if (bytes > INT32_MAX) throw Error(Status::invalid_input, "the strings of one segment exceed 2 GiB");
    const bool all = std::ranges::all_of(groups, [this](uint32_t group) { return values_[group].present; });
    lengths[0] = all ? 0 : bitmap_bytes(groups.size());
    lengths[1] = (groups.size() + 1) * sizeof(int32_t);
    lengths[2] = bytes;
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> out) const {
    std::ranges::fill(out[0], uint8_t{0});
    int32_t end = 0;
    store(out[1].data(), 0, end);
    for (size_t i = 0; i < groups.size(); ++i) {
      const BytesRef value = (*this)[groups[i]];
      if (!out[0].empty() && present(groups[i])) out[0][i / 8] |= static_cast<uint8_t>(1U << (i % 8));
      if (value.size != 0) std::memcpy(out[2].data() + end, value.data, value.size);
      end += static_cast<int32_t>(value.size);
      store(out[1].data(), i + 1, end);
    }
  }
  static bool fits(std::span<const Bytes> from, size_t rows) {
    if (!fits_bitmap(from[0], rows) || from[1].size() != (rows + 1) * sizeof(int32_t)) return false;
    int32_t last = 0;
    for (size_t i = 0; i <= rows; ++i) {
      const auto offset = load<int32_t>(from[1].data(), i);
      if (offset < last) return false;
      last = offset;
    }
    return static_cast<size_t>(last) <= from[2].size();
  }
  static bool present(std::span<const Bytes> from, size_t row) { return is_present(from[0], row); }
  static BytesRef value(std::span<const Bytes> from, size_t row) {
    const auto begin = static_cast<size_t>(load<int32_t>(from[1].data(), row));
    const auto end = static_cast<size_t>(load<int32_t>(from[1].data(), row + 1));
    return {from[2].data() + begin, end - begin};
  }

  uint64_t total(std::span<const uint32_t> groups) const {
    uint64_t bytes = 0;
    for (const uint32_t group : groups) bytes += values_[group].size;
    return bytes;
  }
  // Into out.values and out.offsets.
  void gather(std::span<const uint32_t> groups, ResultColumn& out) const {
    out.values.clear();
    out.offsets.assign(1, 0);
    for (const uint32_t group : groups) {
      const BytesRef value = (*this)[group];
      out.values.insert(out.values.end(), value.data, value.data + value.size);
      if (out.values.size() > INT32_MAX) throw Error(Status::invalid_input, "the strings of one result exceed 2 GiB");
      out.offsets.push_back(static_cast<int32_t>(out.values.size()));
    }
  }

 private:
  struct Value {
    size_t offset = 0;
    uint32_t size = 0;
    uint32_t room = 0;
    bool present = false;
  };

  std::vector<Value> values_;
  std::vector<uint8_t> arena_;
};

}  // namespace pyslash
