#include "pyslash/group_keys.h"

#include <algorithm>

#include "pyslash/bytes.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"

namespace pyslash {

void GroupKeys::clear() {
  hashes_.clear();
  wide_.clear();
  ends_.clear();
  bytes_.clear();
  null_groups_.clear();
}

uint32_t GroupKeys::append(const EncodedKeys& keys, size_t row) {
  if (hashes_.size() >= UINT32_MAX) throw Error(Status::invalid_input, "more than 2^32 groups in one task");
  const auto group = static_cast<uint32_t>(hashes_.size());
  hashes_.push_back(keys.hashes[row]);
  switch (codec_->form()) {
    case KeyForm::packed64:
      if (keys.valid != nullptr && !keys.valid[row]) null_groups_.push_back(group);
      break;
    case KeyForm::packed128:
      wide_.push_back(keys.wide[row]);
      break;
    case KeyForm::bytes: {
      const BytesRef key = keys.row(row);
      bytes_.insert(bytes_.end(), key.data, key.data + key.size);
      ends_.push_back(bytes_.size());
      break;
    }
  }
  return group;
}

bool GroupKeys::equal(uint32_t group, const EncodedKeys& keys, size_t row) const {
  switch (codec_->form()) {
    case KeyForm::packed64:
      return true;
    case KeyForm::packed128:
      return wide_[group] == keys.wide[row];
    case KeyForm::bytes: {
      const uint64_t begin = begin_of(group);
      return BytesRef{bytes_.data() + begin, ends_[group] - begin} == keys.row(row);
    }
  }
  return false;
}

uint32_t GroupKeys::append_unreachable() {
  const auto group = static_cast<uint32_t>(hashes_.size());
  hashes_.push_back(0);
  if (codec_->form() == KeyForm::packed128) wide_.push_back({0, 0});
  if (codec_->form() == KeyForm::bytes) {
    bytes_.resize(bytes_.size() + codec_->fixed_bytes());
    ends_.push_back(bytes_.size());
  }
  return group;
}

const uint8_t* GroupKeys::fixed_part(uint32_t group, uint8_t* scratch) const {
  switch (codec_->form()) {
    case KeyForm::packed64:
      store(scratch, 0, unmix64(hashes_[group]));
      return scratch;
    case KeyForm::packed128:
      return reinterpret_cast<const uint8_t*>(&wide_[group]);
    case KeyForm::bytes:
      return bytes_.data() + begin_of(group);
  }
  return nullptr;
}

bool GroupKeys::is_null_group(uint32_t group) const {
  return std::binary_search(null_groups_.begin(), null_groups_.end(), group);
}

bool GroupKeys::is_null(uint32_t group, size_t key) const {
  if (codec_->has_null_group()) return is_null_group(group);
  if (!codec_->has_mask()) return false;
  uint8_t scratch[sizeof(uint64_t)];
  return fixed_part(group, scratch)[codec_->mask_position() + key / 8] >> (key % 8) & 1;
}

bool GroupKeys::any_null(std::span<const uint32_t> groups, size_t key) const {
  if (!codec_->has_mask() && null_groups_.empty()) return false;
  return std::any_of(groups.begin(), groups.end(), [&](uint32_t group) { return is_null(group, key); });
}

uint64_t GroupKeys::variable_bytes(std::span<const uint32_t> groups, size_t key) const {
  const std::vector<Column>& keys = codec_->keys();
  const auto is_variable = [](const Column& column) { return column.type.is_variable(); };
  uint64_t bytes = 0;
  if (std::ranges::count_if(keys, is_variable) == 1) {
    // All that is behind the fixed part is this key's: its size need not be read.
    for (const uint32_t group : groups) bytes += ends_[group] - begin_of(group) - codec_->fixed_bytes();
  } else {
    each_key(groups, [&](size_t, const uint8_t* fixed) { bytes += load<uint32_t>(fixed + codec_->position(key)); });
  }
  return bytes;
}

template <typename Use>
void GroupKeys::each_key(std::span<const uint32_t> groups, Use&& use) const {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i + place_distance < groups.size()) prefetch_place(groups[i + place_distance]);
    if (i + key_distance < groups.size()) prefetch_key(groups[i + key_distance]);
    use(i, bytes_.data() + begin_of(groups[i]));
  }
}

void GroupKeys::decode(std::span<const uint32_t> groups, std::span<ResultColumn> out) const {
  const std::vector<Column>& keys = codec_->keys();
  std::vector<size_t> variable;
  for (size_t key = 0; key < keys.size(); ++key) {
    ResultColumn& column = out[key];
    const Type type = column.type = keys[key].type;
    column.valid.clear();
    column.offsets.clear();
    if (any_null(groups, key)) {
      column.valid.resize(groups.size());
      for (size_t i = 0; i < groups.size(); ++i) column.valid[i] = is_null(groups[i], key) ? 0 : 1;
    }
    if (type.is_variable()) {
      const uint64_t bytes = variable_bytes(groups, key);
      if (bytes > INT32_MAX) throw Error(Status::invalid_input, "the keys of one batch exceed 2 GiB");
      column.values.resize(bytes);
      column.offsets.resize(groups.size() + 1);
      variable.push_back(key);
    } else {
      column.values.resize(groups.size() * type.width());
    }
  }
  if (!variable.empty()) decode_variable(groups, variable, out);
  for (size_t key = 0; key < keys.size(); ++key) {
    if (!keys[key].type.is_variable()) decode_fixed(groups, key, out[key]);
  }
}

void GroupKeys::decode_variable(std::span<const uint32_t> groups, std::span<const size_t> keys,
                                std::span<ResultColumn> out) const {
  for (const size_t key : keys) out[key].offsets[0] = 0;
  each_key(groups, [&](size_t i, const uint8_t* fixed) {
    const uint8_t* bytes = fixed + codec_->fixed_bytes();
    for (const size_t key : keys) {
      ResultColumn& column = out[key];
      const auto size = load<uint32_t>(fixed + codec_->position(key));
      if (size != 0) std::memcpy(column.values.data() + column.offsets[i], bytes, size);
      column.offsets[i + 1] = column.offsets[i] + static_cast<int32_t>(size);
      bytes += size;
    }
  });
}

void GroupKeys::decode_fixed(std::span<const uint32_t> groups, size_t key, ResultColumn& out) const {
  switch (out.type.width()) {
    case 1:
      return decode_fixed<uint8_t>(groups, key, out);
    case 2:
      return decode_fixed<uint16_t>(groups, key, out);
    case 4:
      return decode_fixed<uint32_t>(groups, key, out);
    case 8:
      return decode_fixed<uint64_t>(groups, key, out);
    default:
      return decode_fixed<int128_t>(groups, key, out);
  }
}

// `Value`: any type of the key's width.
template <typename Value>
void GroupKeys::decode_fixed(std::span<const uint32_t> groups, size_t key, ResultColumn& out) const {
  uint8_t* values = out.values.data();
  const size_t position = codec_->position(key);
  if (codec_->form() == KeyForm::packed64) {
    if constexpr (sizeof(Value) <= sizeof(uint64_t)) {
      for (size_t i = 0; i < groups.size(); ++i) {
        store(values, i, static_cast<Value>(unmix64(hashes_[groups[i]]) >> (8 * position)));
      }
    }
  } else {
    for (size_t i = 0; i < groups.size(); ++i) store(values, i, load<Value>(fixed_part(groups[i], nullptr) + position));
  }
  for (size_t i = 0; i < out.valid.size(); ++i) {
    if (!out.valid[i]) store(values, i, Value{});
  }
}

}  // namespace pyslash
