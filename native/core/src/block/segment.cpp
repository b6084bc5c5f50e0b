#include "pyslash/segment.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "pyslash/crc32c.h"
#include "pyslash/error.h"
#include "states/buffers.h"
#include "states/byte_values.h"

namespace pyslash {
namespace {

[[noreturn]] void corrupt(const SegmentEntry& entry, const std::string& what) {
  throw Error(Status::corrupt_block, "the segment of pane " + std::to_string(entry.pane) + " at " +
                                         std::to_string(entry.offset) + ": " + what);
}

size_t key_buffers(const Type& type) { return type.is_variable() ? 3 : 2; }

bool fits_key(const Type& type, std::span<const Bytes> buffers, size_t rows) {
  if (type.is_variable()) return ByteValues::fits(buffers, rows);
  return fits_bitmap(buffers[0], rows) && buffers[1].size() == rows * type.width();
}

}  // namespace

SegmentReader::SegmentReader(const Plan& plan) : layout_(plan) {
  size_t buffers = 0;
  if (plan.row_bits()) {
    key_columns_ = plan.columns();
  } else {
    for (const int key : plan.keys()) key_columns_.push_back(plan.columns()[static_cast<size_t>(key)]);
  }
  for (const Column& column : key_columns_) {
    if (column.type.is_variable()) offsets_.push_back(buffers + 1);
    buffers += key_buffers(column.type);
  }
  for (size_t i = 0; i < layout_.size(); ++i) {
    state_begin_.push_back(buffers);
    for (const size_t buffer : layout_[i].offset_buffers()) offsets_.push_back(buffers + buffer);
    buffers += layout_[i].buffers();
  }
  state_begin_.push_back(buffers);
  buffers_.resize(buffers);
  keys_.resize(key_columns_.size());
  valid_.resize(key_columns_.size());
  refs_.resize(key_columns_.size());
  copies_.resize(offsets_.size());
}

void SegmentReader::open(const SegmentEntry& entry, Bytes bytes) {
  if (bytes.size() != entry.length) {
    corrupt(entry, std::to_string(bytes.size()) + " bytes instead of " + std::to_string(entry.length));
  }
  if (crc32c(bytes.data(), bytes.size()) != entry.crc) corrupt(entry, "its CRC32C does not match");
  uint64_t at = align_up(buffers_.size() * sizeof(uint64_t));
  if (at > bytes.size()) corrupt(entry, "too short for its table of buffers");
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto length = load<uint64_t>(bytes.data(), i);
    if (length > bytes.size() - at) corrupt(entry, "a buffer lies outside of it");
    buffers_[i] = bytes.subspan(at, length);
    at = std::min<uint64_t>(at + align_up(length), bytes.size());
  }
  for (size_t i = 0; i < offsets_.size(); ++i) {
    Bytes& buffer = buffers_[offsets_[i]];
    copies_[i].assign(buffer.begin(), buffer.end());
    buffer = copies_[i];
  }
  rows_ = entry.rows;
  if (key_columns_.empty() && rows_ > 1) corrupt(entry, std::to_string(rows_) + " groups, but no keys to tell them by");
  size_t buffer = 0;
  for (size_t key = 0; key < key_columns_.size(); ++key) {
    const auto of_key = std::span<const Bytes>(buffers_).subspan(buffer, key_buffers(key_columns_[key].type));
    if (!fits_key(key_columns_[key].type, of_key, rows_)) corrupt(entry, "a key column has the wrong size");
    open_key(key, of_key);
    buffer += of_key.size();
  }
  for (size_t i = 0; i < layout_.size(); ++i) {
    if (!layout_[i].fits(state(i), rows_)) corrupt(entry, "a state column has the wrong size");
  }
}

std::span<const Bytes> SegmentReader::state(size_t index) const {
  return std::span<const Bytes>(buffers_).subspan(state_begin_[index], state_begin_[index + 1] - state_begin_[index]);
}

void SegmentReader::open_key(size_t key, std::span<const Bytes> buffers) {
  BatchColumn& column = keys_[key];
  column.type = key_columns_[key].type;
  column.valid = nullptr;
  if (!buffers[0].empty()) {
    valid_[key].resize(rows_);
    for (size_t i = 0; i < rows_; ++i) valid_[key][i] = buffers[0][i / 8] >> (i % 8) & 1;
    column.valid = valid_[key].data();
  }
  if (column.type.is_variable()) {
    refs_[key].resize(rows_);
    for (size_t i = 0; i < rows_; ++i) {
      const auto begin = static_cast<size_t>(load<int32_t>(buffers[1].data(), i));
      const auto end = static_cast<size_t>(load<int32_t>(buffers[1].data(), i + 1));
      refs_[key][i] = {buffers[2].data() + begin, end - begin};
    }
    column.values = reinterpret_cast<const uint8_t*>(refs_[key].data());
  } else {
    column.values = buffers[1].data();
  }
}

SegmentWriter::SegmentWriter(const GroupKeys& keys, const StateSet& states)
    : keys_(keys), states_(states), buffers_(0) {
  for (const Column& key : keys.codec().keys()) buffers_ += key_buffers(key.type);
  for (size_t i = 0; i < states.size(); ++i) buffers_ += states[i].buffers();
  decoded_.resize(keys.codec().keys().size());
}

uint64_t SegmentWriter::measure(std::span<const uint32_t> groups, std::vector<uint64_t>& lengths) const {
  lengths.assign(buffers_, 0);
  const std::vector<Column>& keys = keys_.codec().keys();
  size_t buffer = 0;
  for (size_t key = 0; key < keys.size(); ++key) {
    lengths[buffer] = keys_.any_null(groups, key) ? bitmap_bytes(groups.size()) : 0;
    if (keys[key].type.is_variable()) {
      lengths[buffer + 1] = (groups.size() + 1) * sizeof(int32_t);
      lengths[buffer + 2] = keys_.variable_bytes(groups, key);
    } else {
      lengths[buffer + 1] = groups.size() * keys[key].type.width();
    }
    buffer += key_buffers(keys[key].type);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].measure(groups, std::span(lengths).subspan(buffer, states_[i].buffers()));
    buffer += states_[i].buffers();
  }
  uint64_t total = align_up(buffers_ * sizeof(uint64_t));
  for (const uint64_t length : lengths) total += align_up(length);
  return total;
}

void SegmentWriter::write(std::span<const uint32_t> groups, std::span<const uint64_t> lengths, std::span<uint8_t> out) {
  // Padding is zero, so that equal groups give equal bytes.
  std::fill(out.begin(), out.end(), 0);
  for (size_t i = 0; i < buffers_; ++i) store(out.data(), i, lengths[i]);
  std::vector<std::span<uint8_t>> buffers;
  uint64_t at = align_up(buffers_ * sizeof(uint64_t));
  for (const uint64_t length : lengths) {
    buffers.push_back(out.subspan(at, length));
    at += align_up(length);
  }
  const auto copy = [](const auto& from, std::span<uint8_t> to) {
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  };
  keys_.decode(groups, decoded_);
  size_t buffer = 0;
  for (const ResultColumn& column : decoded_) {
    if (!buffers[buffer].empty()) {
      for (size_t i = 0; i < groups.size(); ++i) {
        buffers[buffer][i / 8] |= static_cast<uint8_t>(column.valid[i] << (i % 8));
      }
    }
    if (column.type.is_variable()) copy(column.offsets, buffers[buffer + 1]);
    copy(column.values, buffers[buffer + (column.type.is_variable() ? 2 : 1)]);
    buffer += key_buffers(column.type);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].write(groups, std::span(buffers).subspan(buffer, states_[i].buffers()));
    buffer += states_[i].buffers();
  }
}

}  // namespace pyslash
