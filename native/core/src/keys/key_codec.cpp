#include "pyslash/key_codec.h"

#include <cmath>

#include "pyslash/bytes.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"

namespace pyslash {
namespace {

// Spark's NormalizeFloatingNumbers: one bit pattern for NaN, and none for -0.0.
template <typename Float>
Float normalized(Float value) {
  if (std::isnan(value)) return std::numeric_limits<Float>::quiet_NaN();
  return value == Float{0} ? Float{0} : value;
}

template <typename T>
T key_value(const BatchColumn& column, size_t row) {
  const T value = load<T>(column.values, row);
  if constexpr (std::is_floating_point_v<T>) {
    return normalized(value);
  } else {
    return value;
  }
}

// Calls `store_value(row, value)` for every valid row of a fixed-width column.
template <typename T, typename Store>
void each_value(const BatchColumn& column, size_t rows, Store&& store_value) {
  for (size_t i = 0; i < rows; ++i) {
    if (column.valid == nullptr || column.valid[i]) store_value(i, key_value<T>(column, i));
  }
}

template <typename Store>
void dispatch(const BatchColumn& column, size_t rows, Store&& store_value) {
  switch (column.type.id) {
    case TypeId::float32:
      return each_value<float>(column, rows, store_value);
    case TypeId::float64:
      return each_value<double>(column, rows, store_value);
    default:
      break;
  }
  switch (column.type.width()) {
    case 1:
      return each_value<uint8_t>(column, rows, store_value);
    case 2:
      return each_value<uint16_t>(column, rows, store_value);
    case 4:
      return each_value<uint32_t>(column, rows, store_value);
    case 8:
      return each_value<uint64_t>(column, rows, store_value);
    default:
      return each_value<int128_t>(column, rows, store_value);
  }
}

// Writes fixed-width values and the null mask of every row at `at(row)`; what is null stays as it was (zero).
template <typename At>
void write_fixed(const KeyCodec& codec, std::span<const BatchColumn> columns, size_t rows, At&& at) {
  for (size_t key = 0; key < columns.size(); ++key) {
    const BatchColumn& column = columns[key];
    if (!column.type.is_variable()) {
      const size_t position = codec.position(key);
      dispatch(column, rows, [&](size_t row, auto value) { std::memcpy(at(row) + position, &value, sizeof(value)); });
    }
    if (codec.has_mask() && column.valid != nullptr) {
      const size_t byte = codec.mask_position() + key / 8;
      for (size_t i = 0; i < rows; ++i) {
        if (!column.valid[i]) at(i)[byte] |= static_cast<uint8_t>(1U << (key % 8));
      }
    }
  }
}

void encode_rows(const KeyCodec& codec, std::span<const BatchColumn> columns, size_t rows, EncodedKeys& out) {
  out.ends.assign(rows, codec.fixed_bytes());
  for (const BatchColumn& column : columns) {
    if (!column.type.is_variable()) continue;
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i]) out.ends[i] += load<BytesRef>(column.values, i).size;
    }
  }
  uint64_t end = 0;
  for (size_t i = 0; i < rows; ++i) out.ends[i] = end += out.ends[i];
  out.bytes.assign(end, 0);
  const auto at = [&](size_t row) { return out.bytes.data() + (row == 0 ? 0 : out.ends[row - 1]); };
  write_fixed(codec, columns, rows, at);
  for (size_t i = 0; i < rows; ++i) {
    uint8_t* next = at(i) + codec.fixed_bytes();
    for (size_t key = 0; key < columns.size(); ++key) {
      const BatchColumn& column = columns[key];
      if (!column.type.is_variable() || (column.valid != nullptr && !column.valid[i])) continue;
      const auto value = load<BytesRef>(column.values, i);
      if (value.size > UINT32_MAX) throw Error(Status::invalid_input, "a key of more than 4 GiB");
      store(at(i) + codec.position(key), 0, static_cast<uint32_t>(value.size));
      if (value.size != 0) std::memcpy(next, value.data, value.size);
      next += value.size;
    }
    const BytesRef row = out.row(i);
    out.hashes[i] = hash_bytes(row.data, row.size);
  }
}

}  // namespace

KeyCodec::KeyCodec(const Plan& plan) {
  bool variable = false;
  bool nullable = false;
  size_t width = 0;
  for (const int index : plan.keys()) {
    const Column& key = plan.columns()[static_cast<size_t>(index)];
    keys_.push_back(key);
    variable = variable || key.type.is_variable();
    nullable = nullable || key.nullable;
    width += key.type.width();
  }
  null_group_ = keys_.size() == 1 && nullable && width == 8;
  mask_bytes_ = nullable && !null_group_ ? (keys_.size() + 7) / 8 : 0;
  if (variable || width + mask_bytes_ > 16) {
    form_ = KeyForm::bytes;
  } else {
    form_ = width + mask_bytes_ > 8 ? KeyForm::packed128 : KeyForm::packed64;
  }
  // Serialised rows begin with the mask, packed keys end with it.
  size_t position = form_ == KeyForm::bytes ? mask_bytes_ : 0;
  positions_.resize(keys_.size());
  for (const bool lengths : {false, true}) {
    for (size_t key = 0; key < keys_.size(); ++key) {
      if (keys_[key].type.is_variable() != lengths) continue;
      positions_[key] = position;
      position += lengths ? sizeof(uint32_t) : keys_[key].type.width();
    }
  }
  mask_position_ = form_ == KeyForm::bytes ? 0 : position;
  fixed_bytes_ = form_ == KeyForm::bytes ? position : position + mask_bytes_;
}

void KeyCodec::encode(std::span<const BatchColumn> columns, size_t rows, EncodedKeys& out) const {
  out.hashes.resize(rows);
  out.valid = null_group_ ? columns[0].valid : nullptr;
  switch (form_) {
    case KeyForm::packed64: {
      std::fill(out.hashes.begin(), out.hashes.end(), 0);
      auto* bytes = reinterpret_cast<uint8_t*>(out.hashes.data());
      write_fixed(*this, columns, rows, [&](size_t row) { return bytes + row * sizeof(uint64_t); });
      for (uint64_t& hash : out.hashes) hash = mix64(hash);
      if (out.valid != nullptr) {
        for (size_t i = 0; i < rows; ++i) {
          if (!out.valid[i]) out.hashes[i] = null_hash;
        }
      }
      break;
    }
    case KeyForm::packed128: {
      out.wide.assign(rows, Key128{0, 0});
      auto* bytes = reinterpret_cast<uint8_t*>(out.wide.data());
      write_fixed(*this, columns, rows, [&](size_t row) { return bytes + row * sizeof(Key128); });
      for (size_t i = 0; i < rows; ++i) out.hashes[i] = hash_pair(out.wide[i].low, out.wide[i].high);
      break;
    }
    case KeyForm::bytes:
      encode_rows(*this, columns, rows, out);
      break;
  }
}

}  // namespace pyslash
