// One value of any type a group, which may be null.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/column.h"
#include "states/buffers.h"
#include "states/byte_values.h"

namespace pyslash {

class HeldValues {
 public:
  virtual ~HeldValues() = default;
  // New groups hold null.
  virtual void resize(size_t groups) = 0;

  // Takes over a value, or null: of a batch's row, of another column's group (maybe this one's), of a segment's row.
  virtual void take(size_t group, const BatchColumn& column, size_t row) = 0;
  virtual void take(size_t group, const HeldValues& from, size_t from_group) = 0;
  virtual void take(size_t group, std::span<const Bytes> buffers, size_t row) = 0;

  // As a StateColumn's.
  virtual size_t buffers() const = 0;
  virtual void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const = 0;
  virtual void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const = 0;
  virtual bool fits(std::span<const Bytes> buffers, size_t rows) const = 0;
  virtual std::vector<size_t> offset_buffers() const { return {}; }
  virtual uint64_t variable_bytes(std::span<const uint32_t> groups) const = 0;

  // Into out.valid, out.values and out.offsets.
  virtual void gather(std::span<const uint32_t> groups, ResultColumn& out) const = 0;
};

// Values of sizeof(T) bytes, whatever they mean.
template <typename T>
class HeldFixed final : public HeldValues {
 public:
  void resize(size_t groups) override {
    values_.resize(groups, T{});
    present_.resize(groups, 0);
  }

  void take(size_t group, const BatchColumn& column, size_t row) override {
    set(group, column.valid == nullptr || column.valid[row], [&] { return load<T>(column.values, row); });
  }
  void take(size_t group, const HeldValues& from, size_t from_group) override {
    const auto& other = static_cast<const HeldFixed&>(from);
    set(group, other.present_[from_group] != 0, [&] { return other.values_[from_group]; });
  }
  void take(size_t group, std::span<const Bytes> buffers, size_t row) override {
    set(group, is_present(buffers[0], row), [&] { return load<T>(buffers[1].data(), row); });
  }

  // A bitmap of the groups that have a value (absent: all), values.
  size_t buffers() const override { return 2; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    const bool all = std::ranges::all_of(groups, [this](uint32_t group) { return present_[group] != 0; });
    lengths[0] = all ? 0 : bitmap_bytes(groups.size());
    lengths[1] = groups.size() * sizeof(T);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    std::ranges::fill(buffers[0], uint8_t{0});
    for (size_t i = 0; i < groups.size(); ++i) {
      if (!buffers[0].empty()) buffers[0][i / 8] |= static_cast<uint8_t>(present_[groups[i]] << (i % 8));
      store(buffers[1].data(), i, values_[groups[i]]);
    }
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return fits_bitmap(buffers[0], rows) && buffers[1].size() == rows * sizeof(T);
  }
  uint64_t variable_bytes(std::span<const uint32_t>) const override { return 0; }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.offsets.clear();
    out.valid.resize(groups.size());
    out.values.resize(groups.size() * sizeof(T));
    for (size_t i = 0; i < groups.size(); ++i) {
      out.valid[i] = present_[groups[i]];
      store(out.values.data(), i, values_[groups[i]]);
    }
  }

 private:
  // What is null is zero.
  template <typename Value>
  void set(size_t group, bool present, Value&& value) {
    present_[group] = present ? 1 : 0;
    values_[group] = present ? value() : T{};
  }

  std::vector<T> values_;
  std::vector<uint8_t> present_;
};

class HeldBytes final : public HeldValues {
 public:
  void resize(size_t groups) override { values_.resize(groups); }

  void take(size_t group, const BatchColumn& column, size_t row) override {
    set(group, column.valid == nullptr || column.valid[row], [&] { return load<BytesRef>(column.values, row); });
  }
  void take(size_t group, const HeldValues& from, size_t from_group) override {
    const ByteValues& other = static_cast<const HeldBytes&>(from).values_;
    set(group, other.present(from_group), [&] { return other[from_group]; });
  }
  void take(size_t group, std::span<const Bytes> buffers, size_t row) override {
    set(group, ByteValues::present(buffers, row), [&] { return ByteValues::value(buffers, row); });
  }

  size_t buffers() const override { return ByteValues::buffers; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    values_.measure(groups, lengths);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    values_.write(groups, buffers);
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override { return ByteValues::fits(buffers, rows); }
  std::vector<size_t> offset_buffers() const override { return ByteValues::offset_buffers(); }
  uint64_t variable_bytes(std::span<const uint32_t> groups) const override { return values_.total(groups); }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.valid.resize(groups.size());
    for (size_t i = 0; i < groups.size(); ++i) out.valid[i] = values_.present(groups[i]) ? 1 : 0;
    values_.gather(groups, out);
  }

 private:
  template <typename Value>
  void set(size_t group, bool present, Value&& value) {
    if (present) {
      values_.set(group, value());
    } else {
      values_.clear(group);
    }
  }

  ByteValues values_;
};

inline std::unique_ptr<HeldValues> hold(const Type& type) {
  switch (type.width()) {
    case 0:
      return std::make_unique<HeldBytes>();
    case 1:
      return std::make_unique<HeldFixed<uint8_t>>();
    case 2:
      return std::make_unique<HeldFixed<uint16_t>>();
    case 4:
      return std::make_unique<HeldFixed<uint32_t>>();
    case 8:
      return std::make_unique<HeldFixed<uint64_t>>();
    default:
      return std::make_unique<HeldFixed<uint128_t>>();
  }
}

}  // namespace pyslash
