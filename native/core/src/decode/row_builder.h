// An UnsafeRow as it grows, structs in it included; the layout is in update/rows.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash {

class RowBuilder {
 public:
  void clear() { bytes_.clear(); }
  Bytes bytes() const { return bytes_; }

  // A row whose fields are all null, at the end; what is appended from now on belongs to it until another one begins.
  // Returns where it starts.
  size_t begin(size_t fields) {
    const size_t start = bytes_.size();
    const size_t nulls = null_bytes(fields);
    bytes_.resize(start + nulls + fields * 8);
    for (size_t field = 0; field < fields; ++field) bytes_[start + field / 8] |= static_cast<uint8_t>(1 << field % 8);
    return start;
  }

  // The field of the row that starts there gets a value in its low bytes.
  template <typename T>
  void set(size_t row, size_t fields, size_t field, T value) {
    bytes_[row + field / 8] &= static_cast<uint8_t>(~(1 << field % 8));
    store(bytes_.data() + row + null_bytes(fields) + field * 8, 0, value);
  }

  // The field is what has been appended since `begin`.
  void set_appended(size_t row, size_t fields, size_t field, size_t begin) {
    set(row, fields, field, static_cast<uint64_t>(begin - row) << 32 | (bytes_.size() - begin));
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
  }

  void set_text(size_t row, size_t fields, size_t field, std::string_view text) {
    const size_t begin = bytes_.size();
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    set_appended(row, fields, field, begin);
  }

  size_t size() const { return bytes_.size(); }
  // Forgets what has been appended since.
  void cut(size_t size) { bytes_.resize(size); }

 private:
  static size_t null_bytes(size_t fields) { return (fields + 63) / 64 * 8; }

  std::vector<uint8_t> bytes_;
};

}  // namespace pyslash
