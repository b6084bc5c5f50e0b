#include "arrow_format.h"

namespace pyslash::python {

std::string format_of(const Type& type) {
  switch (type.id) {
    case TypeId::boolean:
      return "b";
    case TypeId::int8:
      return "c";
    case TypeId::int16:
      return "s";
    case TypeId::int32:
      return "i";
    case TypeId::int64:
      return "l";
    case TypeId::float32:
      return "f";
    case TypeId::float64:
      return "g";
    case TypeId::date:
      return "tdD";
    case TypeId::timestamp:
      return "tsu:UTC";
    case TypeId::timestamp_ntz:
      return "tsu:";
    case TypeId::decimal:
      return "d:" + std::to_string(type.precision) + "," + std::to_string(type.scale);
    case TypeId::string:
      return "u";
    case TypeId::binary:
      return "z";
  }
  return {};
}

bool reads_as(std::string_view format, const Type& type) {
  switch (type.id) {
    case TypeId::timestamp:
      return format.starts_with("tsu:") && format != "tsu:";
    case TypeId::string:
      return format == "u" || format == "U";
    case TypeId::binary:
      return format == "z" || format == "Z";
    case TypeId::decimal:
      return format == format_of(type) || format == format_of(type) + ",128";
    default:
      return format == format_of(type);
  }
}

}  // namespace pyslash::python
