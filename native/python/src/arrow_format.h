// The core's types as the format strings of the Arrow C data interface, and back.
#pragma once

#include <string>
#include <string_view>

#include "pyslash/types.h"

namespace pyslash::python {

// What the core writes.
std::string format_of(const Type& type);
// Whether an array of this format is read as the type. Strings and binaries may have 64-bit offsets; a timestamp may
// carry any time zone, for Spark's are instants all the same.
bool reads_as(std::string_view format, const Type& type);
inline bool has_large_offsets(std::string_view format) { return format == "U" || format == "Z"; }

}  // namespace pyslash::python
