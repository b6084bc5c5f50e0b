// Dates and times in the plain forms of ISO 8601, as Spark's default formatters read them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pyslash/types.h"

namespace pyslash {

inline constexpr int64_t micros_per_second = 1'000'000;

// YYYY-MM-DD from year 1 on, as days since 1970-01-01.
std::optional<int32_t> parse_date(std::string_view text);

// YYYY-MM-DD, 'T' or a blank, hh:mm:ss, a fraction of at most nine digits, then Z, a zone as +hh:mm, or nothing.
struct PlainTime {
  int64_t micros = 0;  // since 1970-01-01 in its own zone; digits beyond the sixth are cut off
  std::optional<int64_t> zone_seconds;
};

// Times that come one after the other: what one has in common with the last, most of them its minute, is read once.
class TimeReader {
 public:
  std::optional<PlainTime> read(std::string_view text);

  // Into a date, a timestamp or a timestamp_ntz: `set` gets its days or microseconds; false if the text is not surely
  // such a value. `zone_seconds`: of times that name no zone.
  template <typename Set>
  bool set(TypeId type, std::string_view text, std::optional<int64_t> zone_seconds, const Set& set) {
    if (type == TypeId::date) {
      const auto days = parse_date(text);
      return days && set(*days);
    }
    const auto time = read(text);
    if (!time) return false;
    if (type == TypeId::timestamp_ntz) return !time->zone_seconds && set(time->micros);
    const auto zone = time->zone_seconds ? time->zone_seconds : zone_seconds;
    return zone && set(time->micros - *zone * micros_per_second);
  }

 private:
  static constexpr size_t minute_size = sizeof("YYYY-MM-DDThh:mm:") - 1;

  // As it was written, and its seconds since 1970-01-01 in its own zone. What equals it is not looked at again, so it
  // has to be a minute from the beginning.
  std::array<char, minute_size + 1> minute_ = std::to_array("1970-01-01T00:00:");
  int64_t seconds_ = 0;
};

}  // namespace pyslash
