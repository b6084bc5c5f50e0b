#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "decode/cursor.h"
#include "decode/json_schema.h"
#include "decode/numbers.h"
#include "decode/record_format.h"
#include "decode/shape.h"
#include "decode/times.h"

namespace pyslash {
namespace {

size_t beyond_text_of(const std::vector<JsonField>& fields) {
  size_t bytes = RowBuilder::fixed_bytes(fields.size()) + 8 * fields.size();
  for (const JsonField& field : fields) bytes += field.fields.empty() ? 0 : beyond_text_of(field.fields);
  return bytes;
}

class JsonFormat final : public RecordFormat {
 public:
  explicit JsonFormat(std::string_view schema)
      : schema_(JsonSchema::parse(schema)), seen_(schema_.size, 0), shapes_(schema_.size + 1) {}

  size_t most_beyond_text() const override { return beyond_text_of(schema_.fields); }

  Reading append(Bytes record, const uint8_t* readable, RowBuilder& rows, uint64_t& present) override {
    ++record_;
    rows_ = &rows;
    present_ = 0;
    JsonCursor text(record, readable);
    text.skip_space();
    const size_t row = rows.begin(schema_.fields.size());
    if (text.peek() != '{' || !object(text, schema_.fields, shapes_.back(), row)) return Reading::sparks;
    text.skip_space();
    present = present_;
    return text.at_end() ? Reading::row : Reading::sparks;
  }

 private:
  using Fields = std::vector<JsonField>;

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
      const size_t begin = rows_->begin(field.fields.size());
      if (!object(text, field.fields, shapes_[field.number], begin)) return false;
      rows_->set_appended(row, fields.size(), index, begin);
      return true;
    }
    const auto set = [&](auto value) {
      rows_->set(row, fields.size(), index, value);
      return true;
    };
    switch (field.type.id) {
      case TypeId::boolean:
        if (text.peek() == 't') return text.literal("true") && set(uint8_t{1});
        return text.literal("false") && set(uint8_t{0});
      case TypeId::int8:
      case TypeId::int16:
      case TypeId::int32:
      case TypeId::int64:
      case TypeId::float32:
      case TypeId::float64:
      case TypeId::decimal: {
        Number number;
        return text.number(number) && set_number(field.type, number, set);
      }
      case TypeId::timestamp:
        if (text.peek() != '"') return seconds(text, set);
        [[fallthrough]];
      case TypeId::timestamp_ntz:
      case TypeId::date: {
        JsonString found;
        return text.string(found) && !found.escaped && times_.set(field.type.id, found.raw, schema_.zone_seconds, set);
      }
      case TypeId::string:
        return string(text, fields, index, row);
      case TypeId::binary:
        break;
    }
    return false;
  }

  template <typename Set>
  static bool seconds(JsonCursor& text, const Set& set) {
    Number number;
    return text.number(number) && set_integer<int64_t>(number, [&](int64_t value) {
             int64_t micros = 0;
             return !__builtin_mul_overflow(value, micros_per_second, &micros) && set(micros);
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
    rows_->set_text(row, fields.size(), index, found.raw);
    return true;
  }

  JsonSchema schema_;
  std::vector<uint64_t> seen_;  // the last record that had the field
  std::vector<Shape> shapes_;   // of the structs, by the number of their field; last that of the records
  uint64_t record_ = 0;
  TimeReader times_;
  std::string unescaped_;
  RowBuilder* rows_ = nullptr;  // where the record goes
  uint64_t present_ = 0;        // the columns that it has
};

}  // namespace

std::unique_ptr<RecordFormat> json_format(std::string_view schema) { return std::make_unique<JsonFormat>(schema); }

}  // namespace pyslash
