// UnsafeRows as they grow, structs in them included; the layout is in update/rows.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "pyslash/bytes.h"

namespace pyslash {

// Writes without looking at the end: whoever appends has made room.
class RowBuilder {
 public:
  static constexpr size_t wide_bytes = 16;  // of a decimal of more than 18 digits

  // Bytes of a row's null bits and fields.
  static constexpr size_t fixed_bytes(size_t fields) { return null_bytes(fields) + fields * 8; }

  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  const uint8_t* data() const { return bytes_.get(); }
  // Rows from `begin` on.
  Bytes from(size_t begin) const { return {bytes_.get() + begin, size_ - begin}; }

  // Room for so many more bytes; what is there moves.
  void make_room(size_t bytes) {
    if (capacity_ - size_ >= bytes) return;
    const size_t larger = std::max(2 * capacity_, size_ + bytes);
    auto grown = std::make_unique_for_overwrite<uint8_t[]>(larger);
    if (size_ != 0) std::memcpy(grown.get(), bytes_.get(), size_);
    bytes_ = std::move(grown);
    capacity_ = larger;
  }

  // A row whose fields are all null, at the end; what is appended from now on belongs to it until another one begins.
  // Returns where it starts.
  size_t begin(size_t fields) {
    const size_t start = size_;
    uint8_t* const row = bytes_.get() + start;
    for (size_t word = 0; word < null_bytes(fields) / 8; ++word) {
      const size_t bits = fields - word * 64;
      store(row, word, bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
    }
    std::memset(row + null_bytes(fields), 0, fields * 8);
    size_ += fixed_bytes(fields);
    return start;
  }

  // The field of the row that starts there gets a value in its low bytes.
  template <typename T>
  void set(size_t row, size_t fields, size_t field, T value) {
    uint8_t* const at = bytes_.get() + row;
    at[field / 8] &= static_cast<uint8_t>(~(1 << field % 8));
    store(at + null_bytes(fields) + field * 8, 0, value);
  }

  // The field is what has been appended since `begin`.
  void set_appended(size_t row, size_t fields, size_t field, size_t begin) {
    set(row, fields, field, static_cast<uint64_t>(begin - row) << 32 | (size_ - begin));
    size_ = (size_ + 7) / 8 * 8;
  }

  void set_text(size_t row, size_t fields, size_t field, std::string_view text) {
    const size_t begin = size_;
    uint8_t* const at = bytes_.get() + begin;
    if (text.size() % 8 != 0) store(at + text.size() / 8 * 8, 0, uint64_t{0});  // what pads it
    std::memcpy(at, text.data(), text.size());
    size_ += text.size();
    set_appended(row, fields, field, begin);
  }

  // The field is null, and has the room that Spark keeps for a decimal which may take its place.
  void keep_room(size_t row, size_t fields, size_t field) {
    uint8_t* const at = bytes_.get() + row;
    store(at + null_bytes(fields) + field * 8, 0, static_cast<uint64_t>(size_ - row) << 32);
    std::memset(bytes_.get() + size_, 0, wide_bytes);
    size_ += wide_bytes;
  }

  // What has been appended for a field, from the start of its row.
  struct Place {
    size_t offset;
    size_t size;
  };
  // Nothing if the field is null.
  std::optional<Place> appended(size_t row, size_t fields, size_t field) const {
    const uint8_t* const at = bytes_.get() + row;
    if ((at[field / 8] >> field % 8 & 1) != 0) return std::nullopt;
    const auto place = load<uint64_t>(at + null_bytes(fields) + field * 8);
    return Place{place >> 32, place & 0xffffffff};
  }

  // Eight bytes before a row, for its size.
  size_t begin_sized() {
    size_ += sizeof(int64_t);
    return size_;
  }
  void end_sized(size_t row) { store(bytes_.get() + row - sizeof(int64_t), 0, static_cast<int64_t>(size_ - row)); }

  // Forgets what has been appended since.
  void cut(size_t size) { size_ = size; }

 private:
  static constexpr size_t null_bytes(size_t fields) { return (fields + 63) / 64 * 8; }

  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace pyslash
