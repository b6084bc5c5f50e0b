// approx_count_distinct(hash): the registers of HyperLogLog++ (Heule, Nunkesser, Hall 2013), for somebody else to make
// an estimate of. The upper bits of a hash choose a register; it holds the greatest number of zeros that the rest of a
// hash began with, and one more.
#include <array>
#include <charconv>
#include <string>

#include "pyslash/error.h"
#include "states/registers.h"
#include "table.h"

namespace pyslash {
namespace {

constexpr unsigned least_bits = 4;
constexpr unsigned most_bits = 18;

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
