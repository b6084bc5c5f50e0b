// 16-byte identities: of queries and of incarnations.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "pyslash/error.h"

namespace pyslash::python {

namespace nb = nanobind;

using Identity = std::array<uint8_t, 16>;

inline Identity identity_of(const nb::bytes& raw, const char* what) {
  Identity identity;
  if (raw.size() != identity.size()) {
    throw Error(Status::invalid_input,
                std::string(what) + " has " + std::to_string(raw.size()) + " bytes, but must have 16");
  }
  std::copy_n(static_cast<const uint8_t*>(raw.data()), identity.size(), identity.begin());
  return identity;
}

inline nb::bytes to_bytes(const Identity& identity) { return nb::bytes(identity.data(), identity.size()); }
inline nb::bytes to_bytes(const std::vector<uint8_t>& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

}  // namespace pyslash::python
