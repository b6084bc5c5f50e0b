#include "decode/times.h"

#include <chrono>

namespace pyslash {
namespace {

// As many digits as `size`; -1 if one of them is none.
int digits(std::string_view text, size_t at, size_t size) {
  int value = 0;
  for (const char digit : text.substr(at, size)) {
    if (digit < '0' || digit > '9') return -1;
    value = value * 10 + (digit - '0');
  }
  return value;
}

constexpr size_t date_size = 10;
constexpr size_t time_size = 19;

// Seconds of `hh:mm` at `at`; -1 if it is none.
int64_t hours_and_minutes(std::string_view text, size_t at, int most_hours) {
  const int hours = digits(text, at, 2);
  const int minutes = digits(text, at + 3, 2);
  if (text[at + 2] != ':' || hours < 0 || hours > most_hours || minutes < 0 || minutes > 59) return -1;
  return hours * 3600 + minutes * 60;
}

}  // namespace

std::optional<int32_t> parse_date(std::string_view text) {
  if (text.size() != date_size || text[4] != '-' || text[7] != '-') return std::nullopt;
  const int year = digits(text, 0, 4);
  const int month = digits(text, 5, 2);
  const int day = digits(text, 8, 2);
  if (year < 1 || month < 0 || day < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return static_cast<int32_t>(std::chrono::sys_days(date).time_since_epoch().count());
}

std::optional<PlainTime> parse_time(std::string_view text) {
  if (text.size() < time_size || (text[date_size] != 'T' && text[date_size] != ' ')) return std::nullopt;
  const auto days = parse_date(text.substr(0, date_size));
  const int64_t minutes = hours_and_minutes(text, 11, 23);
  const int seconds = digits(text, 17, 2);
  if (!days || minutes < 0 || text[16] != ':' || seconds < 0 || seconds > 59) return std::nullopt;
  PlainTime time;
  time.micros = (*days * int64_t{86400} + minutes + seconds) * micros_per_second;
  text.remove_prefix(time_size);
  if (!text.empty() && text[0] == '.') {
    size_t places = 0;
    int64_t unit = micros_per_second;
    for (text.remove_prefix(1); !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++places) {
      unit /= 10;  // 0 from the seventh digit on
      time.micros += unit * (text[0] - '0');
    }
    if (places == 0 || places > 9) return std::nullopt;
  }
  if (text.empty()) return time;
  if (text == "Z") {
    time.zone_seconds = 0;
    return time;
  }
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const int64_t east = hours_and_minutes(text, 1, 17);
  if (east < 0 || (east == 0 && text[0] == '-')) return std::nullopt;
  time.zone_seconds = text[0] == '+' ? east : -east;
  return time;
}

}  // namespace pyslash
