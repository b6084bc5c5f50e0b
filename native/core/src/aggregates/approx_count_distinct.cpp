// approx_count_distinct(hash): the registers of HyperLogLog++ (Heule, Nunkesser, Hall 2013), for somebody else to make
// an estimate of. The upper bits of a hash choose a register; it holds the greatest number of zeros that the rest of a
// hash began with, and one more. A word has ten registers of 6 bits, as Spark has them.
#include <array>
#include <bit>
#include <charconv>
#include <string>

#include "pyslash/error.h"
#include "states/buffers.h"
#include "table.h"

namespace pyslash {
namespace {

constexpr unsigned least_bits = 4;
constexpr unsigned most_bits = 18;
constexpr unsigned register_bits = 6;
constexpr unsigned registers_a_word = 10;
constexpr uint64_t register_mask = (uint64_t{1} << register_bits) - 1;

uint64_t greater_registers(uint64_t a, uint64_t b) {
  if (b == 0 || a == b) return a;
  uint64_t word = 0;
  for (unsigned i = 0; i < registers_a_word; ++i) {
    const uint64_t mask = register_mask << (i * register_bits);
    word |= std::max(a & mask, b & mask);
  }
  return word;
}

template <unsigned bits>
class Registers final : public ValueState {
 public:
  static constexpr size_t words = (size_t{1} << bits) / registers_a_word + 1;

  void resize(size_t groups) override {
    words_.resize(groups * words);
    groups_ = groups;
  }
  size_t size() const override { return groups_; }

  void update(const StateInput& input, const uint32_t* groups, size_t rows) override {
    const BatchColumn& column = input.columns[0];
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid == nullptr || column.valid[i]) take(groups[i], load<uint64_t>(column.values, i));
    }
  }
  void combine(size_t first, const StateColumn& source, size_t source_first, size_t count) override {
    const uint64_t* from = static_cast<const Registers&>(source).words_.data() + source_first * words;
    uint64_t* to = words_.data() + first * words;
    for (size_t i = 0; i < count * words; ++i) to[i] = greater_registers(to[i], from[i]);
  }
  void merge(std::span<const Bytes> buffers, const uint32_t* groups, size_t rows) override {
    for (size_t i = 0; i < rows; ++i) {
      uint64_t* to = words_.data() + groups[i] * words;
      for (size_t word = 0; word < words; ++word) {
        to[word] = greater_registers(to[word], load<uint64_t>(buffers[0].data(), i * words + word));
      }
    }
  }
  size_t buffers() const override { return 1; }
  void measure(std::span<const uint32_t> groups, std::span<uint64_t> lengths) const override {
    lengths[0] = groups.size() * words * sizeof(uint64_t);
  }
  void write(std::span<const uint32_t> groups, std::span<const std::span<uint8_t>> buffers) const override {
    copy(groups, buffers[0].data());
  }
  bool fits(std::span<const Bytes> buffers, size_t rows) const override {
    return buffers[0].size() == rows * words * sizeof(uint64_t);
  }
  uint64_t variable_bytes(std::span<const uint32_t> groups) const override {
    return groups.size() * words * sizeof(uint64_t);
  }

  void gather(std::span<const uint32_t> groups, ResultColumn& out) const override {
    const size_t bytes = words * sizeof(uint64_t);
    out.offsets.assign(1, 0);
    for (size_t i = 1; i <= groups.size(); ++i) out.offsets.push_back(static_cast<int32_t>(i * bytes));
    out.values.resize(groups.size() * bytes);
    copy(groups, out.values.data());
  }

 private:
  void take(uint32_t group, uint64_t hash) {
    const uint64_t index = hash >> (64 - bits);
    const auto zeros = static_cast<uint64_t>(std::countl_zero((hash << bits) | (uint64_t{1} << (bits - 1))));
    uint64_t& word = words_[group * words + index / registers_a_word];
    const uint64_t shift = index % registers_a_word * register_bits;
    const uint64_t mask = register_mask << shift;
    word = (word & ~mask) | std::max(word & mask, (zeros + 1) << shift);
  }
  void copy(std::span<const uint32_t> groups, uint8_t* out) const {
    for (size_t i = 0; i < groups.size(); ++i) {
      std::memcpy(out + i * words * sizeof(uint64_t), words_.data() + groups[i] * words, words * sizeof(uint64_t));
    }
  }

  std::vector<uint64_t> words_;
  size_t groups_ = 0;
};

template <unsigned bits>
std::unique_ptr<StateColumn> make_registers(std::span<const Type>) {
  return std::make_unique<Registers<bits>>();
}

constexpr auto kinds = std::to_array<StateKind>({
    {"registers4", make_registers<4>},
    {"registers5", make_registers<5>},
    {"registers6", make_registers<6>},
    {"registers7", make_registers<7>},
    {"registers8", make_registers<8>},
    {"registers9", make_registers<9>},
    {"registers10", make_registers<10>},
    {"registers11", make_registers<11>},
    {"registers12", make_registers<12>},
    {"registers13", make_registers<13>},
    {"registers14", make_registers<14>},
    {"registers15", make_registers<15>},
    {"registers16", make_registers<16>},
    {"registers17", make_registers<17>},
    {"registers18", make_registers<18>},
});
static_assert(kinds.size() == most_bits - least_bits + 1);

unsigned bits_of(const AggregateCall& call) {
  unsigned bits = 0;
  const char* const end = call.parameter.data() + call.parameter.size();
  const auto [rest, error] = std::from_chars(call.parameter.data(), end, bits);
  if (error != std::errc() || rest != end || bits < least_bits || bits > most_bits) {
    throw Error(Status::invalid_plan, "approx_count_distinct takes 4 to 18 bits of a hash for its registers, not '" +
                                          std::string(call.parameter) + "'");
  }
  return bits;
}

class ApproxCountDistinct final : public Aggregate {
 public:
  ApproxCountDistinct(const AggregateCall& call, StateRequests& states)
      : registers_(states.need(kinds[bits_of(call) - least_bits], call.columns())) {}

  Type result_type() const override { return {TypeId::binary}; }
  bool result_nullable() const override { return false; }

  void finish(const StateSet& states, std::span<const uint32_t> groups, ResultColumn& out) const override {
    out.type = result_type();
    out.valid.clear();
    static_cast<const ValueState&>(states[registers_]).gather(groups, out);
  }

 private:
  size_t registers_;
};

}  // namespace

std::shared_ptr<const Aggregate> make_approx_count_distinct(const AggregateCall& call, StateRequests& states) {
  if (call.input().of.type.id != TypeId::int64) {
    throw Error(Status::invalid_plan, "there is no approx_count_distinct over " + call.input().of.type.name());
  }
  return std::make_shared<ApproxCountDistinct>(call, states);
}

}  // namespace pyslash
