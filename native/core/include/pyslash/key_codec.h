// Several key columns into one comparable key and its hash, and back.
//
//   packed64    all keys and the null mask fit 8 bytes. The hash is a bijection of the key, so it *is* the key.
//               A lone nullable key of 8 bytes is packed64 too: null has a group of its own beside the values.
//   packed128   they fit 16 bytes
//   bytes       anything else: a serialised row, compared by memcmp
//
// Packed: the values in key order, little endian and zero where null, then the null mask (bit i: key i is null) if any
// key is nullable. A serialised row: null mask, fixed-width values, uint32 lengths of the variable ones, their bytes.
// Floats are normalised as Spark does for grouping: one NaN, and -0.0 becomes 0.0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/column.h"
#include "pyslash/plan.h"

namespace pyslash {

enum class KeyForm : uint8_t { packed64, packed128, bytes };

struct Key128 {
  uint64_t low;
  uint64_t high;
  bool operator==(const Key128&) const = default;
};

// The keys of a batch; reuse one object for many batches. A slice per form; hashes are always there.
struct EncodedKeys {
  std::vector<uint64_t> hashes;
  std::vector<Key128> wide;        // packed128
  std::vector<uint64_t> ends;      // bytes: where row i's key ends in `bytes`
  std::vector<uint8_t> bytes;      // bytes
  const uint8_t* valid = nullptr;  // packed64 with a null group: the key column's, else null

  BytesRef row(size_t i) const {
    const uint64_t begin = i == 0 ? 0 : ends[i - 1];
    return {bytes.data() + begin, ends[i] - begin};
  }
};

class KeyCodec {
 public:
  explicit KeyCodec(const Plan& plan);

  KeyForm form() const { return form_; }
  bool has_null_group() const { return null_group_; }
  const std::vector<Column>& keys() const { return keys_; }

  // Rows of the key columns (in the plan's key order) into `out`. No keys: every row has the same key.
  void encode(std::span<const BatchColumn> columns, size_t rows, EncodedKeys& out) const;

  // Where things are in a key: byte of key i's fixed value (or, serialised, of its length), and of the mask.
  size_t position(size_t key) const { return positions_[key]; }
  size_t mask_position() const { return mask_position_; }
  bool has_mask() const { return mask_bytes_ != 0; }
  // Bytes of the fixed part: the whole packed key, or all of a serialised row before the variable bytes.
  size_t fixed_bytes() const { return fixed_bytes_; }

  // Hash of the null group.
  static constexpr uint64_t null_hash = 0x9e3779b97f4a7c15ULL;

 private:
  std::vector<Column> keys_;
  KeyForm form_ = KeyForm::packed64;
  bool null_group_ = false;
  std::vector<size_t> positions_;
  size_t mask_position_ = 0;
  size_t mask_bytes_ = 0;
  size_t fixed_bytes_ = 0;
};

}  // namespace pyslash
