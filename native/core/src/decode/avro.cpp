#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "decode/avro_schema.h"
#include "decode/record_format.h"
#include "decode/utf8.h"
#include "pyslash/types.h"

namespace pyslash {
namespace {

// What is before these is counted by another calendar, or not, as the query's settings have it: of times, until the
// last zone had changed its clocks' zero.
constexpr int64_t first_common_day = -141'427;                   // 1582-10-15
constexpr int64_t first_common_micros = -2'208'988'800'000'000;  // 1900-01-01

// Of an integer; Avro's reader takes none of more.
constexpr unsigned most_bytes_of_int = 5;
constexpr unsigned most_bytes_of_long = 10;

// Reads what Avro has written; false where it ends too early, or has a form that Avro's own reader may see otherwise.
class AvroCursor {
 public:
  explicit AvroCursor(Bytes record) : at_(record.data()), end_(at_ + record.size()) {}

  size_t left() const { return static_cast<size_t>(end_ - at_); }

  bool take(size_t bytes, const uint8_t*& found) {
    if (bytes > left()) return false;
    found = at_;
    at_ += bytes;
    return true;
  }

  template <typename T>
  bool fixed(T& value) {
    const uint8_t* found = nullptr;
    if (!take(sizeof(T), found)) return false;
    value = load<T>(found);
    return true;
  }

  // Seven bits a byte, the low ones first; the lowest of all is the sign.
  bool number(int64_t& value, unsigned most_bytes = most_bytes_of_long) {
    uint64_t bits = 0;
    for (unsigned shift = 0; shift < 7 * most_bytes; shift += 7) {
      if (at_ == end_) return false;
      const uint64_t byte = *at_++;
      if (shift == 63 && byte > 1) return false;
      bits |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        value = static_cast<int64_t>(bits >> 1 ^ (~(bits & 1) + 1));
        return true;
      }
    }
    return false;
  }

  bool number32(int64_t& value) { return number(value, most_bytes_of_int) && value == static_cast<int32_t>(value); }

  // How many there are of something that follows.
  bool size(size_t& value, unsigned most_bytes = most_bytes_of_long) {
    int64_t found = 0;
    if (!number(found, most_bytes) || found < 0) return false;
    value = static_cast<size_t>(found);
    return true;
  }

  // Which of so many.
  bool index(size_t& value, size_t of) { return size(value, most_bytes_of_int) && value < of; }

  bool text(std::string_view& value) {
    size_t bytes = 0;
    const uint8_t* found = nullptr;
    if (!size(bytes) || !take(bytes, found)) return false;
    value = {reinterpret_cast<const char*>(found), bytes};
    return true;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

size_t beyond_text_of(const AvroType& type) {
  if (type.kind == AvroKind::option) return beyond_text_of(type.types[0]) + beyond_text_of(type.types[1]);
  if (type.kind == AvroKind::symbol) {
    size_t longest = 0;
    for (const auto& symbol : type.symbols) longest = std::max(longest, symbol.size());
    return longest;
  }
  if (type.kind == AvroKind::wide) return RowBuilder::wide_bytes;
  if (type.kind != AvroKind::record) return 0;
  size_t bytes = RowBuilder::fixed_bytes(type.types.size()) + 8 * type.types.size();
  for (const AvroType& field : type.types) bytes += field.is_column ? beyond_text_of(field) : 0;
  return bytes;
}

class AvroFormat final : public RecordFormat {
 public:
  explicit AvroFormat(std::string_view schema) : root_(parse_avro_schema(schema)) {}

  size_t most_beyond_text() const override { return beyond_text_of(root_); }

  // What follows a record is nobody's: Avro's reader does not look at it.
  Reading append(Bytes record, const uint8_t*, RowBuilder& rows, uint64_t& present) override {
    rows_ = &rows;
    present = 0;
    AvroCursor data(record);
    const size_t row = rows.begin(root_.types.size());
    return fields(data, root_.types, row) ? Reading::row : Reading::sparks;
  }

 private:
  using Types = std::vector<AvroType>;

  // A field of a row.
  struct Place {
    size_t row;
    size_t fields;
    size_t index;
  };

  bool fields(AvroCursor& data, const Types& types, size_t row) {
    for (size_t index = 0; index < types.size(); ++index) {
      const AvroType& type = types[index];
      if (!(type.is_column ? value(data, type, {row, types.size(), index}) : skip(data, type))) return false;
    }
    return true;
  }

  template <typename T>
  bool set(Place place, T value) {
    rows_->set(place.row, place.fields, place.index, value);
    return true;
  }

  bool set_text(Place place, std::string_view text) {
    rows_->set_text(place.row, place.fields, place.index, text);
    return true;
  }

  void keep_room(Place place) { rows_->keep_room(place.row, place.fields, place.index); }

  bool value(AvroCursor& data, const AvroType& type, Place place) {
    int64_t number = 0;
    switch (type.kind) {
      case AvroKind::null:
        return true;
      case AvroKind::boolean: {
        uint8_t byte = 0;
        return data.fixed(byte) && byte <= 1 && set(place, byte);
      }
      case AvroKind::int32:
        return data.number32(number) && set(place, static_cast<int32_t>(number));
      case AvroKind::int64:
        return data.number(number) && set(place, number);
      case AvroKind::float32: {
        float found = 0;
        return data.fixed(found) && set(place, found);
      }
      case AvroKind::float64: {
        double found = 0;
        return data.fixed(found) && set(place, found);
      }
      case AvroKind::text:
      case AvroKind::utf8: {
        std::string_view found;
        return data.text(found) && (type.kind == AvroKind::text || is_utf8(bytes_of(found))) && set_text(place, found);
      }
      case AvroKind::date:
        return date(data, number) && set(place, static_cast<int32_t>(number));
      case AvroKind::timestamp_millis:
      case AvroKind::timestamp_micros:
      case AvroKind::local_millis:
      case AvroKind::local_micros:
        return micros(data, type.kind, number) && set(place, number);
      case AvroKind::decimal:
      case AvroKind::fixed_decimal:
        return decimal(data, type, number) && set(place, number);
      case AvroKind::symbol: {
        size_t index = 0;
        return data.index(index, type.symbols.size()) && set_text(place, type.symbols[index]);
      }
      case AvroKind::record: {
        const size_t begin = rows_->begin(type.types.size());
        if (!fields(data, type.types, begin)) return false;
        rows_->set_appended(place.row, place.fields, place.index, begin);
        return true;
      }
      case AvroKind::option: {
        size_t branch = 0;
        if (!data.index(branch, type.types.size())) return false;
        // Spark tells structs apart by their bytes.
        const bool is_null = type.types[branch].kind == AvroKind::null;
        if (is_null && type.types[1 - branch].kind == AvroKind::wide) keep_room(place);
        return value(data, type.types[branch], place);
      }
      case AvroKind::one_of: {
        size_t branch = 0;
        return data.index(branch, type.types.size()) && type.types[branch].kind == AvroKind::null;
      }
      case AvroKind::fixed:
      case AvroKind::array:
      case AvroKind::map:
      case AvroKind::other:
      case AvroKind::wide:
        return false;
    }
    return false;
  }

  static bool date(AvroCursor& data, int64_t& days) { return data.number32(days) && days >= first_common_day; }

  static bool micros(AvroCursor& data, AvroKind kind, int64_t& time) {
    if (!data.number(time)) return false;
    const bool is_millis = kind == AvroKind::timestamp_millis || kind == AvroKind::local_millis;
    if (is_millis && __builtin_mul_overflow(time, int64_t{1000}, &time)) return false;
    const bool is_local = kind == AvroKind::local_millis || kind == AvroKind::local_micros;
    return is_local || time >= first_common_micros;
  }

  // The most significant byte comes first.
  static bool decimal(AvroCursor& data, const AvroType& type, int64_t& unscaled) {
    size_t size = type.bytes;
    const uint8_t* bytes = nullptr;
    if (type.kind == AvroKind::decimal && !data.size(size)) return false;
    if (!data.take(size, bytes) || size == 0 || size > sizeof(int64_t)) return false;
    auto bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(bytes[0])));
    for (size_t at = 1; at < size; ++at) bits = bits << 8 | bytes[at];
    unscaled = static_cast<int64_t>(bits);
    int64_t limit = 1;
    for (size_t digit = 0; digit < type.digits; ++digit) limit *= 10;
    return unscaled > -limit && unscaled < limit;
  }

  // What Spark would find no fault with.
  static bool skip(AvroCursor& data, const AvroType& type) {
    int64_t number = 0;
    const uint8_t* bytes = nullptr;
    std::string_view text;
    switch (type.kind) {
      case AvroKind::null:
        return true;
      case AvroKind::boolean:
        return data.take(1, bytes);
      case AvroKind::int32:
        return data.number32(number);
      case AvroKind::int64:
        return data.number(number);
      case AvroKind::date:
        return date(data, number);
      case AvroKind::timestamp_millis:
      case AvroKind::timestamp_micros:
      case AvroKind::local_millis:
      case AvroKind::local_micros:
        return micros(data, type.kind, number);
      case AvroKind::decimal:
      case AvroKind::fixed_decimal:
        return decimal(data, type, number);
      case AvroKind::float32:
        return data.take(sizeof(float), bytes);
      case AvroKind::float64:
        return data.take(sizeof(double), bytes);
      case AvroKind::text:
      case AvroKind::utf8:
        return data.text(text);
      case AvroKind::fixed:
        return data.take(type.bytes, bytes);
      case AvroKind::symbol: {
        size_t index = 0;
        return data.index(index, type.symbols.size());
      }
      case AvroKind::record:
        return std::ranges::all_of(type.types, [&](const AvroType& field) { return skip(data, field); });
      case AvroKind::option:
      case AvroKind::one_of: {
        size_t branch = 0;
        return data.index(branch, type.types.size()) && skip(data, type.types[branch]);
      }
      case AvroKind::array:
        return skip_blocks(data, [&] { return skip(data, type.types[0]); });
      case AvroKind::map:
        return skip_blocks(data, [&] { return data.text(text) && skip(data, type.types[0]); });
      case AvroKind::other:
      case AvroKind::wide:
        return false;
    }
    return false;
  }

  // Items in blocks, each behind its number of items; if that is negative, also behind its number of bytes.
  template <typename Item>
  static bool skip_blocks(AvroCursor& data, const Item& item) {
    for (;;) {
      int64_t items = 0;
      if (!data.number(items)) return false;
      if (items == 0) return true;
      if (items < 0) return false;  // Spark reads it: the bytes need not be those of the items
      if (static_cast<uint64_t>(items) > data.left()) return false;
      for (; items > 0; --items) {
        const size_t left = data.left();
        if (!item()) return false;
        if (data.left() == left) break;  // nor has any other of them a byte
      }
    }
  }

  AvroType root_;
  RowBuilder* rows_ = nullptr;  // where the record goes
};

}  // namespace

std::unique_ptr<RecordFormat> avro_format(std::string_view schema) { return std::make_unique<AvroFormat>(schema); }

}  // namespace pyslash
