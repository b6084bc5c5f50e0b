#include "pyslash/key_table.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "pyslash/error.h"
#include "table_place.h"

namespace pyslash {
namespace {

// Rows between the prefetch of a slot and its probe: enough to cover a miss to memory.
constexpr size_t prefetch_distance = 24;

// Row numbers of a whole batch, or of some of its rows.
struct AllRows {
  size_t operator[](size_t i) const { return i; }
};
struct SomeRows {
  const uint32_t* rows;
  size_t operator[](size_t i) const { return rows[i]; }
};

}  // namespace

inline size_t KeyTable::home(uint64_t hash) const { return table_place(hash, shift_); }

KeyTable::KeyTable() { make(first_slots); }

void KeyTable::make(size_t slots) {
  slots_.assign(slots, Slot{0, absent, 0});
  shift_ = 64 - std::countr_zero(slots);
}

void KeyTable::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{0, absent, 0});
  used_ = 0;
  null_group_ = absent;
}

void KeyTable::restore(const GroupKeys& keys, std::span<const uint32_t> groups) {
  clear();
  if (slots_.size() < 2 * groups.size()) make(std::bit_ceil(2 * groups.size()));
  for (const uint32_t group : groups) {
    if (keys.is_null_group(group)) {
      null_group_ = group;
    } else {
      place({keys.hash(group), group, 0});
      ++used_;
    }
  }
}

void KeyTable::find_or_insert(const EncodedKeys& encoded, size_t count, GroupKeys& keys, uint32_t* groups) {
  dispatch(*this, encoded, AllRows{}, count, keys, groups);
}

void KeyTable::find_or_insert(const EncodedKeys& encoded, std::span<const uint32_t> rows, GroupKeys& keys,
                              uint32_t* groups) {
  dispatch(*this, encoded, SomeRows{rows.data()}, rows.size(), keys, groups);
}

void KeyTable::find(const EncodedKeys& encoded, size_t count, const GroupKeys& keys, uint32_t* groups) const {
  dispatch(*this, encoded, AllRows{}, count, keys, groups);
}

template <typename Table, typename Rows, typename Keys>
void KeyTable::dispatch(Table& table, const EncodedKeys& encoded, Rows rows, size_t count, Keys& keys,
                        uint32_t* groups) {
  switch (keys.codec().form()) {
    case KeyForm::packed64:
      if (encoded.valid != nullptr) return probe<KeyForm::packed64, true>(table, encoded, rows, count, keys, groups);
      return probe<KeyForm::packed64, false>(table, encoded, rows, count, keys, groups);
    case KeyForm::packed128:
      return probe<KeyForm::packed128, false>(table, encoded, rows, count, keys, groups);
    case KeyForm::bytes:
      return probe<KeyForm::bytes, false>(table, encoded, rows, count, keys, groups);
  }
}

template <KeyForm form, bool nullable, typename Table, typename Rows, typename Keys>
void KeyTable::probe(Table& table, const EncodedKeys& encoded, Rows rows, size_t count, Keys& keys, uint32_t* groups) {
  constexpr bool inserts = !std::is_const_v<Table>;
  const uint64_t* hashes = encoded.hashes.data();
  const auto prefetch = [&](size_t i) { __builtin_prefetch(&table.slots_[table.home(hashes[rows[i]])]); };
  for (size_t i = 0; i < std::min(count, prefetch_distance); ++i) prefetch(i);
  for (size_t i = 0; i < count; ++i) {
    if (i + prefetch_distance < count) prefetch(i + prefetch_distance);
    const size_t row = rows[i];
    if constexpr (nullable) {
      if (!encoded.valid[row]) {
        if constexpr (inserts) {
          if (table.null_group_ == absent) table.null_group_ = keys.append(encoded, row);
        }
        groups[row] = table.null_group_;
        continue;
      }
    }
    const uint64_t hash = hashes[row];
    size_t at = table.home(hash);
    while (true) {
      auto& slot = table.slots_[at];
      if (slot.group == absent) {
        if constexpr (inserts) {
          slot = {hash, keys.append(encoded, row), 0};
          groups[row] = slot.group;
          if (++table.used_ * 2 > table.slots_.size()) table.grow();
        } else {
          groups[row] = absent;
        }
        break;
      }
      if (slot.hash == hash && (form == KeyForm::packed64 || keys.equal(slot.group, encoded, row))) {
        groups[row] = slot.group;
        break;
      }
      at = (at + 1) & (table.slots_.size() - 1);
    }
  }
}

void KeyTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  make(2 * old.size());
  for (const Slot& slot : old) {
    if (slot.group != absent) place(slot);
  }
}

void KeyTable::place(const Slot& slot) {
  size_t at = home(slot.hash);
  while (slots_[at].group != absent) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = slot;
}

}  // namespace pyslash
