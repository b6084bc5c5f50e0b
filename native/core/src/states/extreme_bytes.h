// min and max of strings and binaries.
#pragma once

#include "pyslash/error.h"
#include "pyslash/states.h"

namespace pyslash {

// Values lie in one byte arena; a group's room is reused when the next value fits, and doubles when it does not, so the
// arena holds at most a constant times the longest values.
template <bool is_min>
class ExtremeBytes final : public ValueState {
 public:
  void resize(size_t groups) override {
    values_.resize(groups);
    if (groups == 0) arena_.clear();
  }
  size_t size() const override { return values_.size(); }

  void update(const BatchColumn& column, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i]) offer(groups[i], load<BytesRef>(column.values, i));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const auto& from = static_cast<const ExtremeBytes&>(source);
    for (size_t i = 0; i < count; ++i) {
      if (from.values_[source_first + i].present) offer(first + i, from.ref(source_first + i));
    }
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      if (!buffers[0].empty() && !(buffers[0][i / 8] >> (i % 8) & 1)) continue;
      const auto begin = static_cast<size_t>(load<int32_t>(buffers[1].data(), i));
      const auto end = static_cast<size_t>(load<int32_t>(buffers[1].data(), i + 1));
      offer(groups[i], {buffers[2].data() + begin, end - begin});
    }
  }

  // A bitmap of the groups that have a value (absent: all), int32 offsets, bytes.
  size_t buffers() const override { return 3; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    uint64_t bytes = 0;
    bool all = true;
    for (const uint32_t group : groups) {
      all = all && values_[group].present;
      bytes += values_[group].size;
    }
    if (bytes > INT32_MAX) throw Error(Status::invalid_input, "the strings of one segment exceed 2 GiB");
    lengths[0] = all ? 0 : (groups.size() + 7) / 8;
    lengths[1] = (groups.size() + 1) * sizeof(int32_t);
    lengths[2] = bytes;
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    if (!buffers[0].empty()) std::fill(buffers[0].begin(), buffers[0].end(), 0);
    int32_t end = 0;
    store(buffers[1].data(), 0, end);
    for (size_t i = 0; i < groups.size(); ++i) {
      const BytesRef value = ref(groups[i]);
      if (!buffers[0].empty() && values_[groups[i]].present) buffers[0][i / 8] |= static_cast<uint8_t>(1U << (i % 8));
      if (value.size != 0) std::memcpy(buffers[2].data() + end, value.data, value.size);
      end += static_cast<int32_t>(value.size);
      store(buffers[1].data(), i + 1, end);
    }
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    if (!buffers[0].empty() && buffers[0].size() != (rows + 7) / 8) return false;
    if (buffers[1].size() != (rows + 1) * sizeof(int32_t)) return false;
    int32_t last = 0;
    for (size_t i = 0; i <= rows; ++i) {
      const auto offset = load<int32_t>(buffers[1].data(), i);
      if (offset < last) return false;
      last = offset;
    }
    return static_cast<size_t>(last) <= buffers[2].size();
  }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.values.clear();
    out.offsets.assign(1, 0);
    for (const uint32_t group : groups) {
      const BytesRef value = ref(group);
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

  BytesRef ref(size_t group) const { return {arena_.data() + values_[group].offset, values_[group].size}; }

  void offer(size_t group, BytesRef candidate) {
    Value& value = values_[group];
    if (value.present && !(is_min ? candidate < ref(group) : candidate > ref(group))) return;
    // A segment's offsets are int32, and twice the size must fit the room.
    if (candidate.size > INT32_MAX) throw Error(Status::invalid_input, "min or max of a string of more than 2 GiB");
    const auto size = static_cast<uint32_t>(candidate.size);
    if (size > value.room) {
      // The candidate may lie in this very arena, which is about to move.
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

  std::vector<Value> values_;
  std::vector<uint8_t> arena_;
};

}  // namespace pyslash
