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
#include "decode/shape.h"
#include "decode/times.h"

namespace pyslash {
namespace {

constexpr size_t most_bytes = 1 << 20;  // of a record: Jackson has bounds of its own for what is longer
constexpr size_t page_of_rows = 1 << 20;
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

// Bytes of a row beyond those of its record's text: fields, what pads strings, the row's own size.
size_t most_beyond_text(const std::vector<JsonField>& fields) {
  size_t bytes = RowBuilder::fixed_bytes(fields.size()) + 8 * fields.size() + sizeof(int64_t);
  for (const JsonField& field : fields) bytes += field.fields.empty() ? 0 : most_beyond_text(field.fields);
  return bytes;
}

}  // namespace

class JsonReader::Impl {
 public:
  Impl(std::string_view schema, bool sized)
      : schema_(JsonSchema::parse(schema)),
        sized_(sized),
        beyond_text_(most_beyond_text(schema_.fields)),
        seen_(schema_.size, 0),
        shapes_(schema_.size + 1) {}

  std::optional<Bytes> read(Bytes record) {
    rows_.clear();
    rows_.make_room(beyond_text_ + record.size());
    if (!append(record, record.data() + record.size())) return std::nullopt;
    return rows_.from(0);
  }

  const Lines& read_lines(Bytes page, size_t last_start, bool skips_first, bool is_end) {
    rows_.clear();
    lines_.lines.clear();
    lines_.is_full = false;
    lines_.left = 0;
    LineEnds ends(page);
    size_t start = 0;
    while (start <= last_start && start < page.size()) {
      const size_t end = ends.from(start);
      const bool has_two = end + 1 < page.size() && page[end] == '\r' && page[end + 1] == '\n';
      // Only what follows tells whether a line ends here, or with which bytes.
      if (!is_end && (end == page.size() || (page[end] == '\r' && end + 1 == page.size()))) break;
      if (skips_first) {
        skips_first = false;
      } else if (!has_room(end - start)) {
        lines_.is_full = true;
        break;
      } else if (end != start) {
        read_line(page.subspan(start, end - start), page.data() + page.size());
      }
      start = std::min(end + (has_two ? 2 : 1), page.size());
    }
    lines_.consumed = start;
    lines_.rows = rows_.from(0);
    return lines_;
  }

 private:
  using Fields = std::vector<JsonField>;

  // Rows stay where they are until all lines of the page are read.
  bool has_room(size_t line) {
    const size_t wanted = beyond_text_ + std::min(line, most_bytes);
    if (rows_.capacity() - rows_.size() >= wanted) return true;
    if (rows_.size() != 0) return false;
    rows_.make_room(std::max(wanted, page_of_rows));
    return true;
  }

  void read_line(Bytes line, const uint8_t* readable) {
    const size_t begin = rows_.size();
    const size_t row = sized_ ? rows_.begin_sized() : begin;
    if (line.size() > most_bytes || !append(line, readable)) {
      rows_.cut(begin);
      ++lines_.left;
      lines_.lines.push_back({line, {}, 0});
      return;
    }
    if (sized_) rows_.end_sized(row);
    lines_.lines.push_back({line, rows_.from(row), present_});
  }

  bool append(Bytes record, const uint8_t* readable) {
    ++record_;
    present_ = 0;
    JsonCursor text(record, readable);
    text.skip_space();
    const size_t row = rows_.begin(schema_.fields.size());
    if (text.peek() != '{' || !object(text, schema_.fields, shapes_.back(), row)) return false;
    text.skip_space();
    return text.at_end();
  }

  // At its opening brace.
  bool object(JsonCursor& text, const Fields& fields, Shape& shape, size_t row) {
    size_t next = 0;  // writers keep to one order of fields
    for (size_t number = 0;; ++number) {
      const uint8_t* const begin = text.at();
      size_t found = 0;
      if (!shape.take(text, number, found)) {
        if (number == 0) {
          text.take('{');
          text.skip_space();
          if (text.take('}')) return true;
        } else {
          text.skip_space();
          if (text.take('}')) return true;
          if (!text.take(',')) return false;
          text.skip_space();
        }
        JsonString name;
        if (!text.name(name) || name.escaped) return false;
        text.skip_space();
        if (!text.take(':')) return false;
        found = find(fields, name.raw, next);
        shape.learn(number, begin, text.at(), found);
      }
      text.skip_space();
      if (found == fields.size()) {
        if (!text.skip(0)) return false;
      } else {
        next = found + 1;
        if (&fields == &schema_.fields && found < 64) present_ |= uint64_t{1} << found;
        if (!member(text, fields, found, row)) return false;
      }
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
      const size_t begin = rows_.begin(field.fields.size());
      if (!object(text, field.fields, shapes_[field.number], begin)) return false;
      rows_.set_appended(row, fields.size(), index, begin);
      return true;
    }
    const auto set = [&](auto value) {
      rows_.set(row, fields.size(), index, value);
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
          const auto time = times_.read(value);
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
    const auto size = static_cast<int64_t>(number.unscaled);
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
    const int64_t size = static_cast<int64_t>(number.unscaled) * power;
    return set(number.negative ? -size : size);
  }

  template <typename Set>
  static bool plain_string(JsonCursor& text, const Set& set) {
    JsonString found;
    return text.string(found) && !found.escaped && set(found.raw);
  }

  template <typename Set>
  bool timestamp(JsonCursor& text, const Set& set) {
    if (text.peek() != '"') {
      return integer<int64_t>(text, [&](int64_t seconds) {
        int64_t micros = 0;
        return !__builtin_mul_overflow(seconds, micros_per_second, &micros) && set(micros);
      });
    }
    return plain_string(text, [&](std::string_view value) {
      const auto time = times_.read(value);
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
    rows_.set_text(row, fields.size(), index, found.raw);
    return true;
  }

  JsonSchema schema_;
  bool sized_;
  size_t beyond_text_;
  std::vector<uint64_t> seen_;  // the last record that had the field
  std::vector<Shape> shapes_;   // of the structs, by the number of their field; last that of the records
  uint64_t record_ = 0;
  uint64_t present_ = 0;  // the columns that the record has
  TimeReader times_;
  RowBuilder rows_;
  std::string unescaped_;
  Lines lines_;
};

JsonReader::JsonReader(std::string_view schema, bool sized) : impl_(std::make_unique<Impl>(schema, sized)) {}
JsonReader::~JsonReader() = default;
JsonReader::JsonReader(JsonReader&&) noexcept = default;
JsonReader& JsonReader::operator=(JsonReader&&) noexcept = default;

std::optional<Bytes> JsonReader::read(Bytes record) { return impl_->read(record); }

const JsonReader::Lines& JsonReader::read_lines(Bytes page, size_t last_start, bool skips_first, bool is_end) {
  return impl_->read_lines(page, last_start, skips_first, is_end);
}

}  // namespace pyslash
