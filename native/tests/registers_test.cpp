#include "states/registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "expect_error.h"

namespace pyslash {
namespace {

// Registers by their definition: of each group, number -> value.
using Model = std::vector<std::map<size_t, uint64_t>>;

template <unsigned bits>
void add(Model& model, size_t group, uint64_t hash) {
  const uint64_t rest = hash << bits;
  const uint64_t zeros =
      std::min<uint64_t>(rest == 0 ? 64 - bits : static_cast<uint64_t>(std::countl_zero(rest)), 64 - bits);
  uint64_t& value = model[group][hash >> (64 - bits)];
  value = std::max(value, zeros + 1);
}

// Spark's words of a group.
template <unsigned bits>
std::vector<uint64_t> words_of(const std::map<size_t, uint64_t>& group) {
  std::vector<uint64_t> words(Registers<bits>::words);
  for (const auto& [index, value] : group) words[index / 10] |= value << (index % 10 * 6);
  return words;
}

template <unsigned bits>
std::vector<uint8_t> bytes_of(const Model& model) {
  std::vector<uint8_t> bytes;
  for (const auto& group : model) {
    const std::vector<uint64_t> words = words_of<bits>(group);
    const auto* from = reinterpret_cast<const uint8_t*>(words.data());
    bytes.insert(bytes.end(), from, from + words.size() * sizeof(uint64_t));
  }
  return bytes;
}

std::vector<uint32_t> all(size_t groups) {
  std::vector<uint32_t> ids(groups);
  std::iota(ids.begin(), ids.end(), 0U);
  return ids;
}

template <unsigned bits>
std::vector<uint8_t> written(const Registers<bits>& state) {
  std::vector<uint64_t> lengths(1);
  state.measure(all(state.size()), lengths);
  std::vector<uint8_t> bytes(lengths[0], 0xa5);
  const std::span<uint8_t> out(bytes);
  state.write(all(state.size()), {&out, 1});
  return bytes;
}

template <unsigned bits>
void expect_equal(const Registers<bits>& state, const Model& model) {
  ResultColumn found;
  state.gather(all(state.size()), found);
  ASSERT_EQ(found.values, bytes_of<bits>(model));
  ASSERT_EQ(found.offsets.size(), model.size() + 1);
}

constexpr size_t groups = 12;

// Groups of which some see a few values, some thousands.
template <unsigned bits>
void update(std::mt19937_64& random, Registers<bits>& state, Model& model) {
  std::vector<uint64_t> hashes;
  std::vector<uint32_t> to;
  std::vector<uint8_t> valid;
  for (uint32_t group = 0; group < groups; ++group) {
    const size_t rows = random() % (size_t{1} << random() % 11);
    for (size_t i = 0; i < rows; ++i) {
      // Hashes with many zeros too.
      const uint64_t hash = random() >> (random() % 4 == 0 ? random() % 64 : 0);
      hashes.push_back(random() % 2 == 0 ? std::rotr(hash, static_cast<int>(bits)) : hash);
      to.push_back(group);
      valid.push_back(random() % 8 != 0);
      if (valid.back()) add<bits>(model, group, hashes.back());
    }
  }
  const BatchColumn column{{TypeId::int64, 0, 0}, valid.data(), reinterpret_cast<const uint8_t*>(hashes.data())};
  state.update({{&column, 1}, {}}, to.data(), to.size());
}

template <unsigned bits>
void run(uint64_t seed) {
  std::mt19937_64 random(seed);
  Registers<bits> whole;
  Model expected(groups);
  whole.resize(groups);
  for (size_t part = 0; part < 4; ++part) {
    Registers<bits> state;
    Model model(groups);
    state.resize(groups);
    if (part != 0) update(random, state, model);
    expect_equal(state, model);
    for (size_t group = 0; group < groups; ++group) {
      for (const auto& [index, value] : model[group]) {
        expected[group][index] = std::max(expected[group][index], value);
      }
    }
    const bool as_words = random() % 3 == 0;  // as blocks had them once
    const std::vector<uint8_t> bytes = as_words ? bytes_of<bits>(model) : written(state);
    const Bytes buffer(bytes);
    ASSERT_LE(bytes.size(), groups * Registers<bits>::word_bytes);
    ASSERT_TRUE(state.fits({&buffer, 1}, groups));
    if (random() % 2 == 0) {
      whole.merge({&buffer, 1}, all(groups).data(), groups);
    } else {
      whole.combine(0, state, 0, groups);
    }
    expect_equal(whole, expected);
  }
  // Of one column: the second half into the first one.
  Model halves(expected.begin(), expected.begin() + groups / 2);
  for (size_t group = 0; group < groups / 2; ++group) {
    for (const auto& [index, value] : expected[group + groups / 2]) {
      halves[group][index] = std::max(halves[group][index], value);
    }
  }
  whole.combine(0, whole, groups / 2, groups / 2);
  whole.resize(groups / 2);
  expect_equal(whole, halves);
  whole.resize(0);
  whole.resize(groups);
  expect_equal(whole, Model(groups));
}

TEST(Registers, AreThoseOfTheModelHoweverTheyAreKept) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    run<4>(seed);
    run<7>(seed);
    run<9>(seed);
    run<10>(seed);
    run<11>(seed);
    run<18>(seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Registers, AFewValuesTakeAFewBytes) {
  Registers<9> state;
  state.resize(1000);
  const std::vector<uint64_t> hashes(1000, uint64_t{1} << 60);
  const BatchColumn column{{TypeId::int64, 0, 0}, nullptr, reinterpret_cast<const uint8_t*>(hashes.data())};
  state.update({{&column, 1}, {}}, all(1000).data(), 1000);
  EXPECT_EQ(written(state).size(), 3000U);
}

TEST(Registers, WhatCannotBeRegistersIsRefused) {
  constexpr unsigned bits = 9;
  Registers<bits> state;
  state.resize(3);
  const auto fits = [&](const std::vector<uint8_t>& bytes) {
    const Bytes buffer(bytes);
    return state.fits({&buffer, 1}, 3);
  };
  EXPECT_TRUE(fits({0, 2, 0, 65, 0, 130, 0}));
  EXPECT_FALSE(fits({}));
  EXPECT_FALSE(fits({0, 0}));
  EXPECT_FALSE(fits({0, 2, 0, 65, 0, 130}));
  EXPECT_FALSE(fits({0, 2, 0, 65, 0, 130, 0, 0}));
  EXPECT_FALSE(fits({0, Registers<bits>::in_words, 0, 65, 0}));
  EXPECT_FALSE(fits(std::vector<uint8_t>(3 * Registers<bits>::word_bytes + 1)));
  std::vector<uint8_t> many(3 + 2 * (Registers<bits>::most_entries + 1));
  many[0] = Registers<bits>::most_entries + 1;
  EXPECT_FALSE(fits(many));
  // Bytes that have changed since they were looked at.
  const auto merge = [&](const std::vector<uint8_t>& bytes) {
    const Bytes buffer(bytes);
    state.merge({&buffer, 1}, all(3).data(), 3);
  };
  expect_error(Status::corrupt_block, "outside", [&] { merge({0, 2, 0, 65, 0}); });
  expect_error(Status::corrupt_block, "outside", [&] { merge({0, 0, Registers<bits>::in_words, 65, 0}); });
  expect_error(Status::corrupt_block, "no such register", [&] { merge({0, 1, 0, 255, 255}); });
}

}  // namespace
}  // namespace pyslash
