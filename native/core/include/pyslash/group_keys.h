// The keys of groups by dense group id, in the form that the codec gave them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pyslash/column.h"
#include "pyslash/key_codec.h"

namespace pyslash {

class GroupKeys {
 public:
  // The codec must outlive it.
  explicit GroupKeys(const KeyCodec& codec) : codec_(&codec) {}

  const KeyCodec& codec() const { return *codec_; }
  size_t size() const { return hashes_.size(); }
  uint64_t hash(uint32_t group) const { return hashes_[group]; }
  void clear();
  // Whether it is the group of the null key: of keys that have one beside their values (KeyCodec::has_null_group).
  bool is_null_group(uint32_t group) const;

  // A new group with the key of an encoded row; its id.
  uint32_t append(const EncodedKeys& keys, size_t row);
  // Whether a group has the key of an encoded row *of the same hash*.
  bool equal(uint32_t group, const EncodedKeys& keys, size_t row) const;
  // A new group with an unspecified key that no table finds, e.g. for rows that are to be ignored.
  uint32_t append_unreachable();

  // Key columns of the groups, in their order, into out[0 .. keys) (replaced).
  void decode(std::span<const uint32_t> groups, std::span<ResultColumn> out) const;
  // Bytes of string or binary key `key` over the groups, and whether it is null in any of them.
  uint64_t variable_bytes(std::span<const uint32_t> groups, size_t key) const;
  bool any_null(std::span<const uint32_t> groups, size_t key) const;

 private:
  // Of serialised keys, so many groups ahead of a look at one: where it is, and, when that is there, its bytes.
  static constexpr size_t place_distance = 16;
  static constexpr size_t key_distance = 8;
  void prefetch_place(uint32_t group) const { __builtin_prefetch(ends_.data() + group); }
  void prefetch_key(uint32_t group) const {
    __builtin_prefetch(bytes_.data() + begin_of(group));
    __builtin_prefetch(bytes_.data() + ends_[group] - 1);
  }
  // Calls `use(i, key)` for the serialised key of group after group.
  template <typename Use>
  void each_key(std::span<const uint32_t> groups, Use&& use) const;
  // Strings and binaries among the keys, `keys`.
  void decode_variable(std::span<const uint32_t> groups, std::span<const size_t> keys,
                       std::span<ResultColumn> out) const;
  void decode_fixed(std::span<const uint32_t> groups, size_t key, ResultColumn& out) const;
  template <typename Value>
  void decode_fixed(std::span<const uint32_t> groups, size_t key, ResultColumn& out) const;
  const uint8_t* fixed_part(uint32_t group, uint8_t* scratch) const;
  bool is_null(uint32_t group, size_t key) const;
  uint64_t begin_of(uint32_t group) const { return group == 0 ? 0 : ends_[group - 1]; }

  const KeyCodec* codec_;
  std::vector<uint64_t> hashes_;
  std::vector<Key128> wide_;
  std::vector<uint64_t> ends_;
  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> null_groups_;  // ascending; packed64 with a null group only
};

}  // namespace pyslash
