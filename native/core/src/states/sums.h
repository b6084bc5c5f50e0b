// Sums: exact ones of integers and decimals, floating ones of floats.
#pragma once

#include <algorithm>

#include "pyslash/states.h"
#include "states/buffers.h"

namespace pyslash {

// The sum modulo 2^(bits of Low) and, beside it, how often an addition left that range. The second word is allocated
// with the first overflow: in almost every query it never is.
template <typename Low>
class ExactWords {
 public:
  void resize(size_t groups) {
    low_.resize(groups, 0);
    if (!high_.empty()) high_.resize(groups, 0);
  }
  size_t size() const { return low_.size(); }
  Low low(size_t group) const { return low_[group]; }
  int64_t high(size_t group) const { return high_.empty() ? 0 : high_[group]; }

  void add(size_t group, Low value) {
    if (__builtin_add_overflow(low_[group], value, &low_[group])) [[unlikely]]
      add_high(group, value < 0 ? -1 : 1);
  }
  // this[first + i] += source[source_first + i], i < count; `source` may be this.
  void add(size_t first, const ExactWords& source, size_t source_first, size_t count) {
    if constexpr (sizeof(Low) == 8) {
      while (source.high_.empty() && count > 0) {
        const size_t run = std::min<size_t>(count, 512);
        if (!add_within_range(low_.data() + first, source.low_.data() + source_first, run)) break;
        first += run;
        source_first += run;
        count -= run;
      }
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t high = source.high(source_first + i);
      add(first + i, source.low(source_first + i));
      add_high(first + i, high);
    }
  }
  void add_high(size_t group, int64_t overflows) {
    if (overflows == 0) return;
    if (high_.empty()) high_.resize(low_.size(), 0);
    high_[group] = wrapped_sum(high_[group], overflows);
  }
  const std::vector<Low>& lows() const { return low_; }
  const std::vector<int64_t>& highs() const { return high_; }

 private:
  // Adds unless one of the additions would overflow; then nothing is changed. Two loops without a branch in them.
  static bool add_within_range(Low* to, const Low* from, size_t count) {
    uint64_t overflows = 0;  // in its sign bit
    for (size_t i = 0; i < count; ++i) {
      const auto a = static_cast<uint64_t>(to[i]);
      const auto b = static_cast<uint64_t>(from[i]);
      overflows |= ~(a ^ b) & (a ^ (a + b));
    }
    if (static_cast<int64_t>(overflows) < 0) return false;
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
    return true;
  }

  std::vector<Low> low_;
  std::vector<int64_t> high_;
};

template <typename Value, typename Low>
class ExactAdd final : public ExactSumState {
 public:
  void resize(size_t groups) override { words_.resize(groups); }
  size_t size() const override { return words_.size(); }
  ExactSum sum(uint32_t group) const override {
    if constexpr (sizeof(Low) == 8) {
      const uint128_t high = static_cast<uint128_t>(static_cast<int128_t>(words_.high(group))) << 64;
      return {static_cast<int128_t>(high + static_cast<uint128_t>(static_cast<int128_t>(words_.low(group)))), 0};
    } else {
      return {words_.low(group), words_.high(group)};
    }
  }

  const int64_t* longs() const override {
    if constexpr (sizeof(Low) == 8) return words_.highs().empty() ? words_.lows().data() : nullptr;
    return nullptr;
  }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    if (column.valid == nullptr) {
      for (size_t i = 0; i < rows; ++i) words_.add(groups[i], load<Value>(column.values, i));
    } else {
      for (size_t i = 0; i < rows; ++i) {
        if (column.valid[i]) words_.add(groups[i], load<Value>(column.values, i));
      }
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    words_.add(first, static_cast<const ExactAdd&>(source).words_, source_first, count);
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    if (!buffers[0].empty()) {
      for (size_t i = 0; i < rows; ++i) words_.add(groups[i], load<Low>(buffers[0].data(), i));
    }
    if (!buffers[1].empty()) {
      for (size_t i = 0; i < rows; ++i) words_.add_high(groups[i], load<int64_t>(buffers[1].data(), i));
    }
  }
  size_t buffers() const override { return 2; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = length_unless_zero(words_.lows(), groups);
    lengths[1] = length_unless_zero(words_.highs(), groups);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    gather_into(words_.lows(), groups, buffers[0]);
    gather_into(words_.highs(), groups, buffers[1]);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return fits_values<Low>(buffers[0], rows) && fits_values<int64_t>(buffers[1], rows);
  }

 private:
  ExactWords<Low> words_;
};

template <typename Value>
class FloatAdd final : public FloatSumState {
 public:
  void resize(size_t groups) override { sums_.resize(groups, 0.0); }
  size_t size() const override { return sums_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i])
        sums_[groups[i]] += static_cast<double>(load<Value>(column.values, i));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const double* from = static_cast<const FloatAdd&>(source).sums_.data() + source_first;
    double* to = sums_.data() + first;
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    if (buffers[0].empty()) return;
    for (size_t i = 0; i < rows; ++i) sums_[groups[i]] += load<double>(buffers[0].data(), i);
  }
  size_t buffers() const override { return 1; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = length_unless_zero(sums_, groups);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    gather_into(sums_, groups, buffers[0]);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return fits_values<double>(buffers[0], rows);
  }
};

}  // namespace pyslash
