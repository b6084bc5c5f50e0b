#include <cstdint>
#include <string>
#include <string_view>
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

size_t beyond_text_of(const JsonField& field) {
  if (field.kind == JsonKind::wide) return RowBuilder::wide_bytes;
  if (field.kind != JsonKind::record) return 0;
  size_t bytes = RowBuilder::fixed_bytes(field.fields.size()) + 8 * field.fields.size();
  for (const JsonField& member : field.fields) bytes += beyond_text_of(member);
  return bytes;
}

class JsonFormat final : public RecordFormat {
 public:
  JsonFormat(std::string_view schema, bool as_values)
      : schema_(JsonSchema::parse(schema)), as_values_(as_values), seen_(schema_.size, 0), shapes_(schema_.size) {}

  size_t most_beyond_text() const override { return beyond_text_of(schema_.root); }

  Reading append(Bytes record, const uint8_t* readable, RowBuilder& rows, uint64_t& present) override {
    ++record_;
    rows_ = &rows;
    present_ = 0;
    JsonCursor text(record, readable);
    text.skip_space();
    if (text.peek() != '{' || !object(text, schema_.root)) return Reading::sparks;
    text.skip_space();
    present = present_;
    return text.at_end() ? Reading::row : Reading::sparks;
  }

 private:
  using Fields = std::vector<JsonField>;

  // A row that grows.
  struct Row {
    size_t start;
    size_t next = 0;         // behind the last field whose value was appended
    bool is_ordered = true;  // such fields have come in the order of the schema
  };

  // At its opening brace.
  bool object(JsonCursor& text, const JsonField& record) {
    Row row{rows_->begin(record.fields.size())};
    if (!members(text, record, row)) return false;
    const bool is_value = as_values_ || &record != &schema_.root;
    if (is_value && (!row.is_ordered || record.has_wide)) pack(record, row.start);
    return true;
  }

  bool members(JsonCursor& text, const JsonField& record, Row& row) {
    const Fields& fields = record.fields;
    Shape& shape = shapes_[record.number];
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
        if (&record == &schema_.root && found < 64) present_ |= uint64_t{1} << found;
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

  bool member(JsonCursor& text, const Fields& fields, size_t index, Row& row) {
    const JsonField& field = fields[index];
    uint64_t& seen = seen_[field.number];
    if (seen == record_) return false;  // the last one counts, or none: Spark knows
    seen = record_;
    if (text.peek() == 'n') return text.literal("null");
    if (field.kind == JsonKind::other || field.kind == JsonKind::wide) return false;
    if (field.kind == JsonKind::record) {
      if (text.peek() != '{') return false;
      const size_t begin = rows_->size();
      if (!object(text, field)) return false;
      rows_->set_appended(row.start, fields.size(), index, begin);
      note_appended(row, index);
      return true;
    }
    const auto set = [&](auto value) {
      rows_->set(row.start, fields.size(), index, value);
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

  bool string(JsonCursor& text, const Fields& fields, size_t index, Row& row) {
    JsonString found;
    if (!text.string(found)) return false;
    if (found.escaped) {
      unescaped_.clear();
      if (!unescape(found.raw, unescaped_)) return false;
      found.raw = unescaped_;
    }
    rows_->set_text(row.start, fields.size(), index, found.raw);
    note_appended(row, index);
    return true;
  }

  static void note_appended(Row& row, size_t index) {
    row.is_ordered &= index >= row.next;
    row.next = index + 1;
  }

  // What was appended gets the order of the fields, and wide ones their room: Spark tells structs apart by their bytes.
  void pack(const JsonField& record, size_t row) {
    const size_t fields = record.fields.size();
    const size_t begin = RowBuilder::fixed_bytes(fields);
    const Bytes appended = rows_->from(row + begin);
    appended_.assign(reinterpret_cast<const char*>(appended.data()), appended.size());
    rows_->cut(row + begin);
    for (size_t index = 0; index < fields; ++index) {
      const JsonField& field = record.fields[index];
      if (field.kind == JsonKind::wide) {
        rows_->keep_room(row, fields, index);
      } else if (field.is_variable()) {
        const auto place = rows_->appended(row, fields, index);
        if (!place) continue;
        const auto text = std::string_view(appended_).substr(place->offset - begin, place->size);
        rows_->set_text(row, fields, index, text);
      }
    }
  }

  JsonSchema schema_;
  bool as_values_;              // the rows of records, too
  std::vector<uint64_t> seen_;  // the last record that had the field
  std::vector<Shape> shapes_;   // of the record and its structs, by the number of their field
  uint64_t record_ = 0;
  TimeReader times_;
  std::string unescaped_;
  std::string appended_;        // to a row that is packed
  RowBuilder* rows_ = nullptr;  // where the record goes
  uint64_t present_ = 0;        // the columns that it has
};

}  // namespace

std::unique_ptr<RecordFormat> json_format(std::string_view schema, bool as_values) {
  return std::make_unique<JsonFormat>(schema, as_values);
}

}  // namespace pyslash
