#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"
#include "pyslash/records.h"
#include "record_text.h"

namespace pyslash {
namespace {

using namespace std::string_literals;

std::string schema_of(std::string_view fields, size_t count) {
  return "pyslash-avro 1\nrecord " + std::to_string(count) + "\n" + std::string(fields);
}

// As Avro writes it.
std::string number(int64_t value) {
  uint64_t bits = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  std::string bytes;
  for (; bits >= 0x80; bits >>= 7) bytes += static_cast<char>(bits | 0x80);
  return bytes + static_cast<char>(bits);
}

std::string text(std::string_view value) { return number(static_cast<int64_t>(value.size())) + std::string(value); }

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// The row, copied; nothing if the record is left to Spark.
std::optional<std::vector<uint8_t>> row_of(const std::string& schema, std::string_view record) {
  RecordReader reader(schema);
  const std::vector<uint8_t> exact(record.begin(), record.end());
  const auto row = reader.read(exact);
  if (!row) return std::nullopt;
  return std::vector<uint8_t>(row->begin(), row->end());
}

// The word of the second of three columns, between others that come out right; -1: it is null.
std::optional<int64_t> word(std::string_view type, std::string_view value) {
  const auto schema = schema_of("column int\ncolumn " + std::string(type) + "\ncolumn int\n", 3);
  const auto row = row_of(schema, number(-7) + std::string(value) + number(9));
  if (!row) return std::nullopt;
  const auto nulls = load<uint64_t>(row->data());
  EXPECT_EQ(nulls & 5, 0u);
  EXPECT_EQ(load<int32_t>(row->data() + 8), -7);
  EXPECT_EQ(load<int32_t>(row->data() + 24), 9);
  return (nulls & 2) != 0 ? -1 : load<int64_t>(row->data() + 16);
}

std::optional<std::string> text_of(std::string_view type, std::string_view value) {
  const auto row = row_of(schema_of("column " + std::string(type) + "\n", 1), value);
  if (!row) return std::nullopt;
  const auto place = load<uint64_t>(row->data() + 8);
  return std::string(reinterpret_cast<const char*>(row->data()) + (place >> 32), static_cast<uint32_t>(place));
}

TEST(AvroFormat, ReadsValues) {
  EXPECT_EQ(word("boolean", "\1"s), 1);
  EXPECT_EQ(word("boolean", "\2"s), std::nullopt);
  EXPECT_EQ(word("int", number(300)), 300);
  EXPECT_EQ(word("int", number(int64_t{1} << 31)), std::nullopt);
  EXPECT_EQ(word("long", number(INT64_MIN)), INT64_MIN);
  EXPECT_EQ(word("long", number(INT64_MAX)), INT64_MAX);
  EXPECT_EQ(word("long", std::string(9, '\xff') + '\2'), std::nullopt);   // more than 64 bits
  EXPECT_EQ(word("long", std::string(10, '\x80') + '\0'), std::nullopt);  // of eleven bytes
  EXPECT_EQ(word("int", "\xff\xff\xff\xff\x0f"s), INT64_C(0x80000000));
  for (const auto* type : {"int", "date", "enum 1 41", "option null int"}) {
    EXPECT_EQ(word(type, std::string(5, '\x80') + '\0'), std::nullopt) << type;  // of six bytes
  }
  EXPECT_EQ(word("double", raw(1.5)), 0x3ff8000000000000);
  EXPECT_EQ(word("float", raw(-0.0F)), 0x80000000);
  EXPECT_EQ(text_of("text", text("")), "");
  EXPECT_EQ(text_of("text", text("\xff is none of UTF-8")), "\xff is none of UTF-8");
  EXPECT_EQ(text_of("utf8", text("\xff is none of UTF-8")), std::nullopt);
  EXPECT_EQ(text_of("utf8", text("ünï")), "ünï");
  EXPECT_EQ(text_of("text", number(-1)), std::nullopt);
  EXPECT_EQ(text_of("text", number(3) + "ab"), std::nullopt);
  EXPECT_EQ(text_of("enum 2 41 4242", number(1)), "BB");
  EXPECT_EQ(text_of("enum 2 41 4242", number(2)), std::nullopt);
  EXPECT_EQ(text_of("enum 1 " + hex(std::string(100, 'e')), number(0)), std::string(100, 'e'));
}

TEST(AvroFormat, LeavesTimesOfOtherCalendarsToSpark) {
  EXPECT_EQ(word("date", number(20'000)), 20'000);
  EXPECT_EQ(word("date", number(-141'427)).value_or(0) & 0xffffffff, static_cast<uint32_t>(-141'427));
  EXPECT_EQ(word("date", number(-141'428)), std::nullopt);
  EXPECT_EQ(word("timestamp-millis", number(5)), 5000);
  EXPECT_EQ(word("timestamp-millis", number(INT64_MAX / 1000 + 1)), std::nullopt);
  EXPECT_EQ(word("timestamp-micros", number(-2'208'988'800'000'000)), -2'208'988'800'000'000);
  EXPECT_EQ(word("timestamp-micros", number(-2'208'988'800'000'001)), std::nullopt);
  EXPECT_EQ(word("local-millis", number(-5)), -5000);
  EXPECT_EQ(word("local-micros", number(-5)), -5);
}

TEST(AvroFormat, ReadsDecimals) {
  EXPECT_EQ(word("decimal 4", text("\x0f\xff"s)), 4095);
  EXPECT_EQ(word("decimal 4", text("\xff"s)).value_or(0), -1);
  EXPECT_EQ(word("decimal 3", text("\x03\xe8"s)), std::nullopt);  // 1000
  EXPECT_EQ(word("decimal 3", text("\x03\xe7"s)), 999);
  EXPECT_EQ(word("decimal 3", text("")), std::nullopt);
  EXPECT_EQ(word("decimal 18", text(std::string(9, '\0'))), std::nullopt);
  EXPECT_EQ(word("fixed-decimal 3 4", "\xff\xff\xfe"s), -2);
  expect_error(Status::invalid_plan, "too many digits", [&] { RecordReader(schema_of("column decimal 19\n", 1)); });
}

TEST(AvroFormat, KeepsRoomForWideNulls) {
  EXPECT_EQ(word("option null wide", number(1)), std::nullopt);
  const auto row = row_of(schema_of("column option wide null\ncolumn text\n", 2), number(1) + text("t"));
  ASSERT_TRUE(row);
  ASSERT_EQ(row->size(), 24u + 16 + 8);
  EXPECT_EQ(load<uint64_t>(row->data()), 1u);
  EXPECT_EQ(load<uint64_t>(row->data() + 8), uint64_t{24} << 32);
  EXPECT_EQ(load<uint64_t>(row->data() + 16), uint64_t{40} << 32 | 1);
}

TEST(AvroFormat, ReadsUnionsAndStructs) {
  EXPECT_EQ(word("option null long", number(0)), -1);
  EXPECT_EQ(word("option null long", number(1) + number(6)), 6);
  EXPECT_EQ(word("option long null", number(1)), -1);
  EXPECT_EQ(word("option long null", number(2)), std::nullopt);
  EXPECT_EQ(word("union 3 null long text", number(0)), -1);
  EXPECT_EQ(word("union 3 null long text", number(1) + number(1)), std::nullopt);
  const auto schema = schema_of("column record 2 column text unused long\ncolumn int\n", 2);
  const auto row = row_of(schema, text("inner") + number(77) + number(5));
  ASSERT_TRUE(row);
  EXPECT_EQ(load<int32_t>(row->data() + 16), 5);
  const uint8_t* const inner = row->data() + (load<uint64_t>(row->data() + 8) >> 32);
  EXPECT_EQ(load<uint64_t>(inner), 2u);  // the unused one is null
  const auto place = load<uint64_t>(inner + 8);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(inner) + (place >> 32), static_cast<uint32_t>(place)), "inner");
}

TEST(AvroFormat, PassesOverWhatIsNotUsed) {
  const auto skipped = [](std::string_view type, std::string_view value) {
    const auto row =
        row_of(schema_of("unused " + std::string(type) + "\ncolumn int\n", 2), std::string(value) + number(5));
    if (!row) return false;
    EXPECT_EQ(load<uint64_t>(row->data()), 1u);
    EXPECT_EQ(load<int32_t>(row->data() + 16), 5);
    return true;
  };
  EXPECT_TRUE(skipped("array text", number(2) + text("a") + text("bb") + number(1) + text("") + number(0)));
  EXPECT_FALSE(skipped("array text", number(-1) + number(2) + text("a") + number(0)));
  EXPECT_FALSE(skipped("array long", number(100) + number(1)));
  EXPECT_TRUE(skipped("array null", number(2) + number(0)));
  EXPECT_TRUE(skipped("map option null double", number(1) + text("k") + number(1) + raw(2.0) + number(0)));
  EXPECT_TRUE(skipped("fixed 4", "abcd"));
  EXPECT_FALSE(skipped("int", std::string(5, '\x80') + '\0'));
  EXPECT_FALSE(skipped("enum 1 41", std::string(5, '\x80') + '\0'));
  EXPECT_FALSE(skipped("option null int", std::string(5, '\x80') + '\0'));
  EXPECT_TRUE(skipped("union 3 null text record 1 column float", number(2) + raw(1.0F)));
  EXPECT_FALSE(skipped("date", number(-200'000)));  // over which Spark may fail
  EXPECT_FALSE(skipped("decimal 3", text("\x03\xe8"s)));
  EXPECT_FALSE(skipped("other", ""));
}

TEST(AvroFormat, LeavesRecordsThatEndTooEarlyToSpark) {
  const auto schema = schema_of("column long\ncolumn text\nunused map long\ncolumn option null double\n", 4);
  const std::string record =
      number(1 << 20) + text("some text") + number(1) + text("k") + number(300) + number(0) + number(1) + raw(0.5);
  EXPECT_TRUE(row_of(schema, record));
  EXPECT_TRUE(row_of(schema, record + "behind it"));
  for (size_t size = 0; size < record.size(); ++size) EXPECT_FALSE(row_of(schema, record.substr(0, size))) << size;
}

TEST(AvroFormat, RefusesWhatIsNoSchema) {
  expect_error(Status::invalid_plan, "of no record", [&] { RecordReader("pyslash-avro 1\nlong"); });
  expect_error(Status::invalid_plan, "no type of Avro", [&] { RecordReader(schema_of("column word\n", 1)); });
  expect_error(Status::invalid_plan, "ends too early", [&] { RecordReader(schema_of("column long\n", 2)); });
  expect_error(Status::invalid_plan, "goes on", [&] { RecordReader(schema_of("column long\nlong", 1)); });
  expect_error(Status::invalid_plan, "no field", [&] { RecordReader(schema_of("field long\n", 1)); });
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += "array ";
  expect_error(Status::invalid_plan, "too deep", [&] { RecordReader(schema_of("unused " + deep + "int", 1)); });
}

TEST(AvroFormat, SurvivesAnyBytes) {
  RecordReader reader(schema_of(
      "column long\ncolumn text\nunused array map text\ncolumn option null record 2 column date column enum 1 41\n"
      "column decimal 9\nunused union 2 fixed 3 array null\n",
      6));
  const std::string whole = number(1 << 20) + text("some text") + number(1) + number(1) + text("k") + text("v") +
                            number(0) + number(0) + number(1) + number(19'000) + number(0) + text("\1\2"s) + number(0) +
                            "abc";
  ASSERT_TRUE(reader.read(bytes_of(whole)));
  std::mt19937 random(1);
  size_t read = 0;
  constexpr size_t rounds = 100'000;
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<uint8_t> record(whole.begin(), whole.end());
    for (auto changes = random() % 3 + 1; changes > 0; --changes) {
      record[random() % record.size()] = static_cast<uint8_t>(random() % 2 == 0 ? random() : random() % 4);
    }
    record.resize(record.size() - random() % 4);
    read += reader.read(record).has_value();
  }
  EXPECT_GT(read, rounds / 20);
  EXPECT_LT(read, rounds - rounds / 20);
}

}  // namespace
}  // namespace pyslash
