// Rows as Spark lays them out, of random types: written as Spark writes them, and read as it reads them, which is
// wherever their fields point. Whoever reads a row of exactly its bytes so shows the sanitizers what is outside.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pyslash/bytes.h"

namespace pyslash::spark {

struct Type {
  std::string word;  // of RowShape's text
  std::vector<Type> of{};

  bool is_fixed() const { return word.starts_with("fixed"); }
  size_t width() const { return is_fixed() ? static_cast<size_t>(word.back() - '0') : 8; }
  std::string text() const {
    std::string all = word == "row" ? "row " + std::to_string(of.size()) : word;
    for (const Type& one : of) all += " " + one.text();
    return all;
  }
};

inline Type random_type(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> leaves{"fixed 1", "fixed 4", "fixed 8",  "fixed 0", "bytes",
                                               "bytes",   "decimal", "interval", "variant"};
  const uint64_t kind = random() % (depth > 0 ? 14 : leaves.size());
  if (kind < leaves.size()) return {leaves[kind]};
  if (kind == 9 || kind == 10) return {"array", {random_type(random, depth - 1)}};
  if (kind == 11) return {"map", {random_type(random, depth - 1), random_type(random, depth - 1)}};
  Type row{"row"};
  for (uint64_t left = random() % 4; left > 0; --left) row.of.push_back(random_type(random, depth - 1));
  return row;
}

class Writer {
 public:
  explicit Writer(std::mt19937_64& random) : random_(random) {}

  std::vector<uint8_t> row(const std::vector<Type>& fields) {
    return words(fields.size(), 0, [&](size_t i) -> const Type& { return fields[i]; });
  }

 private:
  // Null bits behind `head` bytes, then words (or narrower values), then what they point to.
  template <typename TypeOf>
  std::vector<uint8_t> words(size_t count, size_t head, TypeOf&& type_of, size_t width = 8) {
    const size_t bits = (count + 63) / 64 * 8;
    std::vector<uint8_t> out(head + bits + (count * width + 7) / 8 * 8);
    for (size_t i = 0; i < count; ++i) {
      const Type& type = type_of(i);
      if (random_() % 5 == 0) {
        out[head + i / 8] |= static_cast<uint8_t>(1U << (i % 8));
        if (random_() % 2 == 0 && width == 8) store(out.data() + head + bits, i, random_());  // of a null: any
        continue;
      }
      if (type.is_fixed()) {
        for (size_t at = 0; at < width; ++at) out[head + bits + i * width + at] = static_cast<uint8_t>(random_());
        continue;
      }
      const std::vector<uint8_t> held = value(type);
      store(out.data() + head + bits, i, uint64_t{out.size()} << 32 | held.size());
      out.insert(out.end(), held.begin(), held.end());
      out.resize(align_up(out.size(), 8));
    }
    return out;
  }

  std::vector<uint8_t> value(const Type& type) {
    if (type.word == "row") return row(type.of);
    if (type.word == "array") return array(type.of[0], random_() % 6);
    if (type.word == "map") {
      const size_t count = random_() % 4;
      std::vector<uint8_t> keys = array(type.of[0], count), values = array(type.of[1], count), out(8);
      store(out.data(), 0, uint64_t{keys.size()});
      out.insert(out.end(), keys.begin(), keys.end());
      out.insert(out.end(), values.begin(), values.end());
      return out;
    }
    size_t size = random_() % 30;
    if (type.word == "decimal") size = 1 + random_() % 16;
    if (type.word == "interval") size = 16;
    if (type.word == "variant") size += 4;
    std::vector<uint8_t> out(size);
    for (uint8_t& byte : out) byte = static_cast<uint8_t>(random_());
    if (type.word == "variant") store(out.data(), 0, static_cast<uint32_t>(random_() % (size - 3)));
    return out;
  }

  std::vector<uint8_t> array(const Type& element, size_t count) {
    const size_t width = element.is_fixed() ? element.width() : 8;
    std::vector<uint8_t> out = words(count, 8, [&](size_t) -> const Type& { return element; }, width);
    store(out.data(), 0, uint64_t{count});
    return out;
  }

  std::mt19937_64& random_;
};

// Gives something of every byte that Spark would look at.
class Reader {
 public:
  uint64_t row(const std::vector<Type>& fields, const uint8_t* base) {
    const size_t bits = (fields.size() + 63) / 64 * 8;
    for (size_t i = 0; i < fields.size(); ++i) {
      if ((base[i / 8] >> (i % 8) & 1) == 0) field(fields[i], base, base + bits + i * 8);
    }
    return sum_;
  }

 private:
  void field(const Type& type, const uint8_t* base, const uint8_t* at) {
    if (type.is_fixed()) return touch(at, static_cast<int32_t>(type.width()));
    const auto word = load<int64_t>(at);
    value(type, base + static_cast<int32_t>(word >> 32), static_cast<int32_t>(word));
  }

  void value(const Type& type, const uint8_t* at, int32_t size) {
    if (type.word == "row") {
      row(type.of, at);
    } else if (type.word == "array") {
      array(type.of[0], at);
    } else if (type.word == "map") {
      const auto keys = static_cast<int32_t>(load<int64_t>(at));
      array(type.of[0], at + 8);
      array(type.of[1], at + 8 + keys);
    } else if (type.word == "interval") {
      touch(at, 16);
    } else if (type.word == "variant") {
      const auto held = load<int32_t>(at);
      touch(at + 4, held);
      touch(at + 4 + held, size - 4 - held);
    } else {
      touch(at, size);
    }
  }

  void array(const Type& element, const uint8_t* base) {
    const auto count = static_cast<int32_t>(load<int64_t>(base));
    const uint8_t* at = base + 8 + (static_cast<int64_t>(count) + 63) / 64 * 8;
    for (int32_t i = 0; i < count; ++i) {
      if ((base[8 + i / 8] >> (i % 8) & 1) == 0) field(element, base, at + static_cast<int64_t>(i) * element.width());
    }
  }

  // A size below zero is one that Spark makes an array of, or copies with.
  void touch(const uint8_t* at, int32_t size) {
    for (int64_t i = 0; i < (size < 0 ? int64_t{1} << 31 : size); ++i) sum_ += at[i];
  }

  uint64_t sum_ = 0;
};

// The bytes of a row in memory of exactly their size.
class Exact {
 public:
  explicit Exact(const std::vector<uint8_t>& bytes) : Exact(bytes.data(), bytes.size()) {}
  Exact(const uint8_t* bytes, size_t size) : bytes_(new uint8_t[size]), size_(size) {
    if (size != 0) std::memcpy(bytes_.get(), bytes, size);
  }
  Bytes get() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_;
};

}  // namespace pyslash::spark
