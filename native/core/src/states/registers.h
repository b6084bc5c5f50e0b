// The registers of HyperLogLog++ of groups, most of which may have seen a few values only: such a group is a list of
// the registers that are not zero, and becomes all its registers' words once the list is long.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "pyslash/bytes.h"
#include "pyslash/error.h"
#include "pyslash/states.h"

namespace pyslash {

// `bits` of a hash choose a register. A word has ten registers of 6 bits, from the lowest on, as Spark has them.
template <unsigned bits>
class Registers final : public ValueState {
 public:
  static constexpr unsigned register_bits = 6;
  static constexpr unsigned registers_a_word = 10;
  static constexpr uint64_t register_mask = (uint64_t{1} << register_bits) - 1;
  static constexpr size_t registers = size_t{1} << bits;
  static constexpr size_t words = registers / registers_a_word + 1;
  static constexpr size_t word_bytes = words * sizeof(uint64_t);

  // A register of a list, its number above its value.
  using Entry = std::conditional_t<(bits + register_bits <= 16), uint16_t, uint32_t>;
  // Entries of a list: no more than are looked through at once, nor half as long as the words.
  static constexpr size_t most_entries = std::min<size_t>(32, word_bytes / 2 / sizeof(Entry));
  // In the place of their number: the words.
  static constexpr uint8_t in_words = 255;

  void resize(size_t groups) override {
    places_.resize(groups);
    if (groups == 0) entries_.clear(), words_.clear();
  }
  size_t size() const override { return places_.size(); }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i]) take(groups[i], load<uint64_t>(column.values, i));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const auto& from = static_cast<const Registers&>(source);
    for (size_t i = 0; i < count; ++i) {
      const Place place = from.places_[source_first + i];
      if (place.count == in_words) {
        // Of the other one only then: it may be this one, whose words have just moved.
        uint64_t* const to = in_words_of(first + i);
        add_words(to, reinterpret_cast<const uint8_t*>(from.words_.data() + place.at * words));
        continue;
      }
      for (size_t entry = 0; entry < place.count; ++entry) add(first + i, from.entries_[place.at * piece + entry]);
    }
  }

  // One buffer. The words of all groups; or, where that is shorter: for each group a byte, how many entries it has or
  // that it has words, then the entries and words of group after group.
  size_t buffers() const override { return 1; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    uint64_t bytes = groups.size();
    for (const uint32_t group : groups) bytes += bytes_of(places_[group].count);
    lengths[0] = std::min(bytes, groups.size() * word_bytes);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    const std::span<uint8_t> out = buffers[0];
    if (out.size() == groups.size() * word_bytes) return copy(groups, out.data());
    uint8_t* at = out.data() + groups.size();
    for (size_t i = 0; i < groups.size(); ++i) {
      const Place place = places_[groups[i]];
      const size_t bytes = bytes_of(place.count);
      out[i] = place.count;
      const void* const from = place.count == in_words ? static_cast<const void*>(words_.data() + place.at * words)
                                                       : entries_.data() + place.at * piece;
      if (bytes != 0) std::memcpy(at, from, bytes);
      at += bytes;
    }
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    const Bytes from = buffers[0];
    if (from.size() == rows * word_bytes) return true;
    if (from.size() > rows * word_bytes || from.size() < rows) return false;
    size_t bytes = rows;
    for (size_t i = 0; i < rows; ++i) {
      if (from[i] != in_words && from[i] > most_entries) return false;
      bytes += bytes_of(from[i]);
    }
    return bytes == from.size();
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    const Bytes from = buffers[0];
    if (from.size() == rows * word_bytes) {
      for (size_t i = 0; i < rows; ++i) add_words(in_words_of(groups[i]), from.data() + i * word_bytes);
      return;
    }
    size_t at = rows;
    for (size_t i = 0; i < rows; ++i) {
      const uint8_t count = from[i];
      const size_t bytes = bytes_of(count);
      // What fits() has seen may have changed since.
      if (bytes > from.size() - at) throw Error(Status::corrupt_block, "registers lie outside of their buffer");
      if (count == in_words) {
        add_words(in_words_of(groups[i]), from.data() + at);
      } else {
        for (size_t entry = 0; entry < count; ++entry) {
          const auto value = load<Entry>(from.data() + at, entry);
          if (value >> register_bits >= registers) throw Error(Status::corrupt_block, "there is no such register");
          add(groups[i], value);
        }
      }
      at += bytes;
    }
  }

  uint64_t variable_bytes(std::span<const uint32_t> groups) const override { return groups.size() * word_bytes; }
  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.offsets.assign(1, 0);
    for (size_t i = 1; i <= groups.size(); ++i) out.offsets.push_back(static_cast<int32_t>(i * word_bytes));
    out.values.resize(groups.size() * word_bytes);
    copy(groups, out.values.data());
  }

 private:
  // Where a group's entries are, in pieces, or its words.
  struct Place {
    uint32_t at = 0;
    uint8_t count = 0;  // of entries; or in_words
    uint8_t room = 0;
  };
  static constexpr size_t piece = std::min<size_t>(4, most_entries);

  static size_t bytes_of(uint8_t count) { return count == in_words ? word_bytes : count * sizeof(Entry); }

  void take(size_t group, uint64_t hash) {
    const uint64_t index = hash >> (64 - bits);
    const auto zeros = static_cast<uint64_t>(std::countl_zero((hash << bits) | (uint64_t{1} << (bits - 1))));
    add(group, static_cast<Entry>(index << register_bits | (zeros + 1)));
  }

  void add(size_t group, Entry entry) {
    Place& place = places_[group];
    if (place.count == in_words) return set(words_.data() + place.at * words, entry);
    Entry* const list = entries_.data() + place.at * piece;
    for (size_t i = 0; i < place.count; ++i) {
      if (list[i] >> register_bits != entry >> register_bits) continue;
      list[i] = std::max(list[i], entry);
      return;
    }
    if (place.count == most_entries) return set(in_words_of(group), entry);
    if (place.count == place.room) grow(place);
    entries_[place.at * piece + place.count++] = entry;
  }

  // A list moves to where there is room for twice as many.
  void grow(Place& place) {
    const size_t at = entries_.size();
    const size_t room = place.room == 0 ? piece : std::min<size_t>(2 * place.room, most_entries);
    entries_.resize(at + align_up(room, piece));
    std::copy_n(entries_.begin() + static_cast<std::ptrdiff_t>(place.at * piece), place.count,
                entries_.begin() + static_cast<std::ptrdiff_t>(at));
    place.at = static_cast<uint32_t>(at / piece);
    place.room = static_cast<uint8_t>(room);
  }

  uint64_t* in_words_of(size_t group) {
    Place& place = places_[group];
    if (place.count != in_words) {
      const size_t at = words_.size();
      words_.resize(at + words);
      for (size_t i = 0; i < place.count; ++i) set(words_.data() + at, entries_[place.at * piece + i]);
      place = {static_cast<uint32_t>(at / words), in_words, 0};
    }
    return words_.data() + place.at * words;
  }

  static void set(uint64_t* words_of_group, Entry entry) {
    const size_t index = entry >> register_bits;
    uint64_t& word = words_of_group[index / registers_a_word];
    const uint64_t shift = index % registers_a_word * register_bits;
    const uint64_t mask = register_mask << shift;
    word = (word & ~mask) | std::max(word & mask, (entry & register_mask) << shift);
  }

  static void add_words(uint64_t* to, const uint8_t* from) {
    for (size_t i = 0; i < words; ++i) to[i] = greater_registers(to[i], load<uint64_t>(from, i));
  }
  static uint64_t greater_registers(uint64_t a, uint64_t b) {
    if (b == 0 || a == b) return a;
    uint64_t word = 0;
    for (unsigned i = 0; i < registers_a_word; ++i) {
      const uint64_t mask = register_mask << (i * register_bits);
      word |= std::max(a & mask, b & mask);
    }
    return word;
  }

  void copy(std::span<const uint32_t> groups, uint8_t* out) const {
    std::vector<uint64_t> of_list(words);
    for (const uint32_t group : groups) {
      const Place place = places_[group];
      const uint64_t* from = words_.data() + place.at * words;
      if (place.count != in_words) {
        std::ranges::fill(of_list, 0);
        for (size_t i = 0; i < place.count; ++i) set(of_list.data(), entries_[place.at * piece + i]);
        from = of_list.data();
      }
      std::memcpy(out, from, word_bytes);
      out += word_bytes;
    }
  }

  std::vector<Place> places_;
  std::vector<Entry> entries_;
  std::vector<uint64_t> words_;
};

}  // namespace pyslash
