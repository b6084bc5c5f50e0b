#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "decode/numbers.h"
#include "decode/record_format.h"
#include "decode/schema_words.h"
#include "decode/times.h"
#include "decode/utf8.h"

namespace pyslash {
namespace {

constexpr uint8_t quote = '"';
constexpr size_t most_fields = 20'000;  // of a record: Univocity has room for 20,480
constexpr size_t no_column = std::numeric_limits<size_t>::max();

enum class CsvKind : uint8_t {
  value,  // of a type that is read here
  other,  // of another type: null, or Spark's
  none,   // always null
};

struct CsvColumn {
  CsvKind kind = CsvKind::value;
  Type type;
};

struct CsvSchema {
  // Grammar: pyslash/records.h. Status::invalid_plan if the text has another.
  static CsvSchema parse(std::string_view text);

  std::optional<int64_t> zone_seconds;
  uint8_t separator = 0;
  uint8_t escape = 0;
  std::string null;  // empty: only the empty field is
  std::optional<int64_t> fields;
  std::vector<CsvColumn> columns;
  std::vector<size_t> column_of;  // by the place of a field; of those behind, none is read
};

uint8_t one_of_ascii(const std::string& bytes) {
  if (bytes.size() != 1 || static_cast<uint8_t>(bytes[0]) >= 0x80) SchemaWords::fail("a character beyond ASCII");
  return static_cast<uint8_t>(bytes[0]);
}

CsvSchema CsvSchema::parse(std::string_view text) {
  SchemaWords words(text);
  CsvSchema schema;
  words.expect("pyslash-csv");
  words.expect("1");
  words.expect("zone");
  schema.zone_seconds = words.number_or_dash();
  words.expect("separator");
  schema.separator = one_of_ascii(words.bytes());
  words.expect("escape");
  schema.escape = one_of_ascii(words.bytes());
  words.expect("null");
  schema.null = words.bytes_or_dash();
  words.expect("fields");
  schema.fields = words.number_or_dash();
  while (!words.at_end()) {
    words.expect("field");
    CsvColumn column;
    const std::string_view type = words.next();
    if (type == "none") {
      column.kind = CsvKind::none;
      words.expect("-");
    } else {
      if (type == "other") {
        column.kind = CsvKind::other;
      } else {
        column.type = SchemaWords::type_of(type);
      }
      const int64_t place = words.number();
      if (place < 0 || place >= static_cast<int64_t>(most_fields)) SchemaWords::fail("a field out of bounds");
      const auto at = static_cast<size_t>(place);
      if (at >= schema.column_of.size()) schema.column_of.resize(at + 1, no_column);
      if (schema.column_of[at] != no_column) SchemaWords::fail("a field of two columns");
      schema.column_of[at] = schema.columns.size();
    }
    schema.columns.push_back(column);
  }
  return schema;
}

// Where a byte stands in a text, one place after the other.
class Places {
 public:
  // Bytes behind the text may be looked at up to `readable`.
  Places(uint8_t wanted, const uint8_t* begin, const uint8_t* end, const uint8_t* readable)
      : wanted_(wanted), block_(begin), end_(end), readable_(readable) {
    find();
  }

  // The next one, or the end.
  const uint8_t* next() {
    while (found_ == 0) {
      if (end_ - block_ <= block_bytes) return end_;
      block_ += block_bytes;
      find();
    }
    const uint8_t* const place = block_ + std::countr_zero(found_);
    found_ &= found_ - 1;
    return place < end_ ? place : end_;
  }

  // On from there, which is not before what `next` gave last.
  void skip_to(const uint8_t* place) {
    if (place - block_ >= block_bytes) {
      block_ = place;
      if (place < end_) {
        find();
      } else {
        found_ = 0;
      }
    } else {
      found_ &= ~uint32_t{0} << (place - block_);
    }
  }

 private:
  static constexpr ptrdiff_t block_bytes = 32;

  void find() {
    std::array<uint8_t, block_bytes> copy;
    const uint8_t* from = block_;
    if (readable_ - block_ < block_bytes) {
      copy.fill(static_cast<uint8_t>(~wanted_));
      std::memcpy(copy.data(), block_, static_cast<size_t>(readable_ - block_));
      from = copy.data();
    }
#ifdef __AVX2__
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i equal = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(static_cast<char>(wanted_)));
    found_ = static_cast<uint32_t>(_mm256_movemask_epi8(equal));
#else
    found_ = 0;
    for (ptrdiff_t i = 0; i < block_bytes; ++i) found_ |= uint32_t{from[i] == wanted_} << i;
#endif
  }

  uint8_t wanted_;
  const uint8_t* block_;
  const uint8_t* end_;
  const uint8_t* readable_;
  uint32_t found_ = 0;  // in the block, those that `next` has not given
};

bool is_word(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] | 0x20) != lower[i]) return false;
  }
  return true;
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class CsvFormat final : public RecordFormat {
 public:
  explicit CsvFormat(std::string_view schema) : schema_(CsvSchema::parse(schema)) {}

  size_t most_beyond_text() const override {
    return RowBuilder::fixed_bytes(schema_.columns.size()) + 8 * schema_.columns.size();
  }

  Reading append(Bytes record, const uint8_t* readable, RowBuilder& rows, uint64_t& present) override {
    // Spark passes over blank lines before it looks for separators, and over lines that begin with a zero byte.
    if (record.empty() || record[0] <= ' ') {
      if (is_blank(record)) return Reading::none;
      if (record[0] == 0) return Reading::sparks;
    }
    present = ~uint64_t{0};
    const size_t row = rows.begin(schema_.columns.size());
    return fields(record, readable, rows, row) ? Reading::row : Reading::sparks;
  }

 private:
  bool fields(Bytes record, const uint8_t* readable, RowBuilder& rows, size_t row) {
    const uint8_t* at = record.data();
    const uint8_t* const end = at + record.size();
    Places separators(schema_.separator, at, end, readable);
    for (size_t place = 0; place < most_fields; ++place) {
      if (place == schema_.column_of.size() && !schema_.fields && is_plain(at, end)) return true;
      const bool is_quoted = at != end && *at == quote;
      Bytes field;
      if (is_quoted) {
        const uint8_t* const close = closing_quote(at + 1, end);
        if (close == nullptr) return false;
        field = {at + 1, close};
        // Univocity takes the quote that opens for an escape where nobody wants the field.
        if (field.empty() && schema_.escape == quote) return false;
        at = close + 1;
        if (at != end && *at != schema_.separator) return false;
        separators.skip_to(at);
        if (at != end) separators.next();
      } else {
        const uint8_t* const separator = separators.next();
        field = {at, separator};
        at = separator;
      }
      if (!take(place, field, is_quoted, rows, row)) return false;
      if (at == end) return !schema_.fields || static_cast<size_t>(*schema_.fields) == place + 1;
      ++at;
    }
    return false;
  }

  // Nothing that is quoted, nor more fields than may be: whatever is there, no column is read from it.
  static bool is_plain(const uint8_t* at, const uint8_t* end) {
    const auto size = static_cast<size_t>(end - at);
    return size < most_fields / 2 && std::memchr(at, quote, size) == nullptr;
  }

  // Null where the field has a quote or an escape within, or no end.
  const uint8_t* closing_quote(const uint8_t* at, const uint8_t* end) const {
    while (at != end && *at != quote && *at != schema_.escape) ++at;
    return at != end && *at == quote ? at : nullptr;
  }

  bool take(size_t place, Bytes bytes, bool is_quoted, RowBuilder& rows, size_t row) {
    const size_t index = place < schema_.column_of.size() ? schema_.column_of[place] : no_column;
    if (index == no_column) return true;
    const std::string_view text = text_of(bytes);
    // A quoted field without anything is Univocity's empty value, but at the end of a line its null value.
    if (text.empty()) return !is_quoted || schema_.null.empty();
    if (text == schema_.null) return true;
    const CsvColumn& column = schema_.columns[index];
    if (column.kind != CsvKind::value) return false;
    const size_t columns = schema_.columns.size();
    const auto set = [&](auto value) {
      rows.set(row, columns, index, value);
      return true;
    };
    switch (column.type.id) {
      case TypeId::string:
        if (!is_utf8(bytes)) return false;
        rows.set_text(row, columns, index, text);
        return true;
      case TypeId::boolean:
        if (is_word(text, "true")) return set(uint8_t{1});
        return is_word(text, "false") && set(uint8_t{0});
      case TypeId::date:
      case TypeId::timestamp:
      case TypeId::timestamp_ntz:
        return times_.set(column.type.id, text, schema_.zone_seconds, set);
      default: {
        Number number;
        const uint8_t* at = bytes.data();
        const uint8_t* const end = at + bytes.size();
        return number.read(at, end) && at == end && set_number(column.type, number, set);
      }
    }
  }

  CsvSchema schema_;
  TimeReader times_;
};

}  // namespace

std::unique_ptr<RecordFormat> csv_format(std::string_view schema) { return std::make_unique<CsvFormat>(schema); }

}  // namespace pyslash
