#include "pyslash/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "decode/cursor.h"
#include "decode/json_schema.h"
#include "decode/row_builder.h"
#include "decode/times.h"

namespace pyslash {
namespace {

constexpr size_t most_bytes = 1 << 20;  // of a record: Jackson has bounds of its own for what is longer
constexpr size_t safe_digits = 18;  // of an integer: they fit an int64, and a double or float is rounded from it once

template <typename T>
bool fits(int64_t value) {
  return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
}

// Where the lines of a page end: at \n, \r or its end. Each of both is looked for once, however rare the other one is.
class LineEnds {
 public:
  explicit LineEnds(Bytes page) : page_(page), feed_(find('\n', 0)), carriage_(find('\r', 0)) {}

  size_t from(size_t start) {
    if (feed_ < start) feed_ = find('\n', start);
    if (carriage_ < start) carriage_ = find('\r', start);
    return std::min(feed_, carriage_);
  }

 private:
  size_t find(char wanted, size_t start) const {
    const auto* const begin = page_.data() + start;
    const auto* const found = static_cast<const uint8_t*>(std::memchr(begin, wanted, page_.size() - start));
    return found == nullptr ? page_.size() : static_cast<size_t>(found - page_.data());
  }

  Bytes page_;
  size_t feed_;
  size_t carriage_;
};

// Jackson rounds the text to a double, and some of its releases that to a float: the same float unless the double lies
// just between two.
bool is_float(double value) {
  const double size = std::fabs(value);
  if (size != 0 && (size < std::numeric_limits<float>::min() || size > std::numeric_limits<float>::max())) return false;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits & 0x1fffffff) != 0x10000000;
}

}  // namespace

class JsonReader::Impl {
 public:
  explicit Impl(std::string_view schema) : schema_(JsonSchema::parse(schema)), seen_(schema_.size, 0) {}

  std::optional<Bytes> read(Bytes record) {
    row_.clear();
    if (!append(record)) return std::nullopt;
    return row_.bytes();
  }

  const Lines& read_lines(Bytes page, size_t last_start, bool skips_first, bool is_end) {
    row_.clear();
    lines_.lines.clear();
    row_ends_.clear();
    LineEnds ends(page);
    size_t start = 0;
    while (start <= last_start && start < page.size()) {
      const size_t end = ends.from(start);
      const bool has_two = end + 1 < page.size() && page[end] == '\r' && page[end + 1] == '\n';
      // Only what follows tells whether a line ends here, or with which bytes.
      if (!is_end && (end == page.size() || (page[end] == '\r' && end + 1 == page.size()))) break;
      if (!std::exchange(skips_first, false)) read_line(page.subspan(start, end - start));
      start = std::min(end + (has_two ? 2 : 1), page.size());
    }
    lines_.consumed = start;
    size_t begin = 0;  // rows move while others are appended
    for (size_t i = 0; i < lines_.lines.size(); ++i) {
      lines_.lines[i].row = row_.bytes().subspan(begin, row_ends_[i] - begin);
      begin = row_ends_[i];
    }
    return lines_;
  }

 private:
  using Fields = std::vector<JsonField>;

  void read_line(Bytes line) {
    const size_t begin = row_.size();
    if (line.size() > most_bytes || !append(line)) row_.cut(begin);
    row_ends_.push_back(row_.size());
    lines_.lines.push_back({line, {}, present_});
  }

  bool append(Bytes record) {
    ++record_;
    present_ = 0;
    JsonCursor text(record);
    text.skip_space();
    const size_t row = row_.begin(schema_.fields.size());
    if (text.peek() != '{' || !object(text, schema_.fields, row)) return false;
    text.skip_space();
    return text.at_end();
  }

  bool object(JsonCursor& text, const Fields& fields, size_t row) {
    text.take('{');
    text.skip_space();
    if (text.take('}')) return true;
    size_t next = 0;  // writers keep to one order of fields
    while (true) {
      JsonString name;
      if (!text.name(name) || name.escaped) return false;
      text.skip_space();
      if (!text.take(':')) return false;
      text.skip_space();
      const size_t found = find(fields, name.raw, next);
      if (found == fields.size()) {
        if (!text.skip(0)) return false;
      } else {
        next = found + 1;
        if (&fields == &schema_.fields && found < 64) present_ |= uint64_t{1} << found;
        if (!member(text, fields, found, row)) return false;
      }
      text.skip_space();
      if (text.take('}')) return true;
      if (!text.take(',')) return false;
      text.skip_space();
    }
  }

  static size_t find(const Fields& fields, std::string_view name, size_t guess) {
    const auto is = [&](size_t i) { return fields[i].kind != JsonKind::none && fields[i].name == name; };
    if (guess < fields.size() && is(guess)) return guess;
    size_t i = 0;
    while (i < fields.size() && !is(i)) ++i;
    return i;
  }

  bool member(JsonCursor& text, const Fields& fields, size_t index, size_t row) {
    const JsonField& field = fields[index];
    uint64_t& seen = seen_[field.number];
    if (seen == record_) return false;  // the last one counts, or none: Spark knows
    seen = record_;
    if (text.peek() == 'n') return text.literal("null");
    if (field.kind == JsonKind::other) return false;
    if (field.kind == JsonKind::record) {
      if (text.peek() != '{') return false;
      const size_t begin = row_.begin(field.fields.size());
      if (!object(text, field.fields, begin)) return false;
      row_.set_appended(row, fields.size(), index, begin);
      return true;
    }
    const auto set = [&](auto value) {
      row_.set(row, fields.size(), index, value);
      return true;
    };
    switch (field.type.id) {
      case TypeId::boolean:
        if (text.peek() == 't') return text.literal("true") && set(uint8_t{1});
        return text.literal("false") && set(uint8_t{0});
      case TypeId::int8:
        return integer<int8_t>(text, set);
      case TypeId::int16:
        return integer<int16_t>(text, set);
      case TypeId::int32:
        return integer<int32_t>(text, set);
      case TypeId::int64:
        return integer<int64_t>(text, set);
      case TypeId::float32:
        return floating(text, [&](double value) { return is_float(value) && set(static_cast<float>(value)); });
      case TypeId::float64:
        return floating(text, set);
      case TypeId::decimal:
        return decimal(text, field.type, set);
      case TypeId::date:
        return plain_string(text, [&](std::string_view value) {
          const auto days = parse_date(value);
          return days && set(*days);
        });
      case TypeId::timestamp:
        return timestamp(text, set);
      case TypeId::timestamp_ntz:
        return plain_string(text, [&](std::string_view value) {
          const auto time = parse_time(value);
          return time && !time->zone_seconds && set(time->micros);
        });
      case TypeId::string:
        return string(text, fields, index, row);
      case TypeId::binary:
        break;
    }
    return false;
  }

  template <typename T, typename Set>
  static bool integer(JsonCursor& text, const Set& set) {
    JsonNumber number;
    if (!text.number(number) || !number.is_integer() || number.digits > safe_digits) return false;
    const auto size = static_cast<int64_t>(number.unscaled());
    const int64_t value = number.negative ? -size : size;
    return fits<T>(value) && set(static_cast<T>(value));
  }

  template <typename Set>
  static bool floating(JsonCursor& text, const Set& set) {
    JsonNumber number;
    if (!text.number(number) || (number.is_integer() && number.digits > safe_digits)) return false;
    double value = 0;
    const auto [end, error] = std::from_chars(number.text.data(), number.text.data() + number.text.size(), value);
    if (error != std::errc()) return false;
    if (number.negative && value == 0) return false;  // with its sign or without it: Jackson knows
    return set(value);
  }

  template <typename Set>
  static bool decimal(JsonCursor& text, const Type& type, const Set& set) {
    JsonNumber number;
    if (!text.number(number) || number.has_exponent || number.fraction > type.scale ||
        number.digits + type.scale > type.precision) {
      return false;
    }
    const auto power = static_cast<int64_t>(power_of_ten(static_cast<int>(type.scale - number.fraction)));
    const int64_t size = static_cast<int64_t>(number.unscaled()) * power;
    return set(number.negative ? -size : size);
  }

  template <typename Set>
  static bool plain_string(JsonCursor& text, const Set& set) {
    JsonString found;
    return text.string(found) && !found.escaped && set(found.raw);
  }

  template <typename Set>
  bool timestamp(JsonCursor& text, const Set& set) const {
    if (text.peek() != '"') {
      return integer<int64_t>(text, [&](int64_t seconds) {
        int64_t micros = 0;
        return !__builtin_mul_overflow(seconds, micros_per_second, &micros) && set(micros);
      });
    }
    return plain_string(text, [&](std::string_view value) {
      const auto time = parse_time(value);
      if (!time || (!time->zone_seconds && !schema_.zone_seconds)) return false;
      const int64_t zone = time->zone_seconds ? *time->zone_seconds : *schema_.zone_seconds;
      return set(time->micros - zone * micros_per_second);
    });
  }

  bool string(JsonCursor& text, const Fields& fields, size_t index, size_t row) {
    JsonString found;
    if (!text.string(found)) return false;
    if (found.escaped) {
      unescaped_.clear();
      if (!unescape(found.raw, unescaped_)) return false;
      found.raw = unescaped_;
    }
    row_.set_text(row, fields.size(), index, found.raw);
    return true;
  }

  JsonSchema schema_;
  std::vector<uint64_t> seen_;  // the last record that had the field
  uint64_t record_ = 0;
  uint64_t present_ = 0;  // the columns that the record has
  RowBuilder row_;
  std::string unescaped_;
  Lines lines_;
  std::vector<size_t> row_ends_;  // of the lines, in row_
};

JsonReader::JsonReader(std::string_view schema) : impl_(std::make_unique<Impl>(schema)) {}
JsonReader::~JsonReader() = default;
JsonReader::JsonReader(JsonReader&&) noexcept = default;
JsonReader& JsonReader::operator=(JsonReader&&) noexcept = default;

std::optional<Bytes> JsonReader::read(Bytes record) { return impl_->read(record); }

const JsonReader::Lines& JsonReader::read_lines(Bytes page, size_t last_start, bool skips_first, bool is_end) {
  return impl_->read_lines(page, last_start, skips_first, is_end);
}

}  // namespace pyslash
