#include "decode/times.h"

#include <chrono>
#include <cstring>

namespace pyslash {
namespace {

// Two digits; 100,000 or more if one of them is none.
int two_digits(std::string_view text, size_t at) {
  const auto tens = static_cast<unsigned>(text[at] - '0');
  const auto ones = static_cast<unsigned>(text[at + 1] - '0');
  return tens > 9 || ones > 9 ? 100'000 : static_cast<int>(tens * 10 + ones);
}

constexpr size_t date_size = 10;
constexpr size_t time_size = 19;

// Seconds of `hh:mm` at `at`; -1 if it is none.
int64_t hours_and_minutes(std::string_view text, size_t at, int most_hours) {
  const int hours = two_digits(text, at);
  const int minutes = two_digits(text, at + 3);
  if (text[at + 2] != ':' || hours > most_hours || minutes > 59) return -1;
  return hours * 3600 + minutes * 60;
}

}  // namespace

std::optional<int32_t> parse_date(std::string_view text) {
  if (text.size() != date_size || text[4] != '-' || text[7] != '-') return std::nullopt;
  const int year = two_digits(text, 0) * 100 + two_digits(text, 2);
  const int month = two_digits(text, 5);
  const int day = two_digits(text, 8);
  if (year < 1 || year > 9999 || month > 12 || day > 31) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return static_cast<int32_t>(std::chrono::sys_days(date).time_since_epoch().count());
}

std::optional<PlainTime> TimeReader::read(std::string_view text) {
  if (text.size() < time_size) return std::nullopt;
  if (std::memcmp(text.data(), minute_.data(), minute_size) != 0) {
    if ((text[date_size] != 'T' && text[date_size] != ' ') || text[minute_size - 1] != ':') return std::nullopt;
    const auto days = parse_date(text.substr(0, date_size));
    const int64_t minutes = hours_and_minutes(text, date_size + 1, 23);
    if (!days || minutes < 0) return std::nullopt;
    std::memcpy(minute_.data(), text.data(), minute_size);
    seconds_ = *days * int64_t{86400} + minutes;
  }
  const int seconds = two_digits(text, minute_size);
  if (seconds > 59) return std::nullopt;
  PlainTime time;
  time.micros = (seconds_ + seconds) * micros_per_second;
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
