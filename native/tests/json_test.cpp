#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"
#include "pyslash/records.h"
#include "record_text.h"

namespace pyslash {
namespace {

std::string schema_of(std::string_view type) {
  return "pyslash-json 1\nzone 3600\nfield " + std::string(type) + " " + hex("a") + "\n";
}

// The word of the one field of a record {"a": value}; nothing if it is left to Spark.
std::optional<uint64_t> word(std::string_view type, std::string_view value) {
  RecordReader reader(schema_of(type));
  const std::string record = "{\"a\": " + std::string(value) + "}";
  const auto row = reader.read(bytes_of(record));
  if (!row) return std::nullopt;
  EXPECT_EQ(load<uint64_t>(row->data()), 0u) << value;
  return load<uint64_t>(row->data() + 8);
}

std::optional<std::string> text(std::string_view value) {
  RecordReader reader(schema_of("string"));
  const std::string record = "{\"a\":" + std::string(value) + "}";
  const auto row = reader.read(bytes_of(record));
  if (!row) return std::nullopt;
  const auto place = load<uint64_t>(row->data() + 8);
  EXPECT_EQ(row->size() % 8, 0u);
  return std::string(reinterpret_cast<const char*>(row->data()) + (place >> 32), place & 0xffffffff);
}

TEST(JsonFormat, ReadsNumbersThatFit) {
  EXPECT_EQ(word("int8", "-128"), 0x80u);
  EXPECT_EQ(word("int8", "128"), std::nullopt);
  EXPECT_EQ(word("int32", "2147483648"), std::nullopt);
  EXPECT_EQ(word("int64", "999999999999999999"), 999999999999999999u);
  EXPECT_EQ(word("int64", "1000000000000000000"), std::nullopt);  // of 19 digits
  EXPECT_EQ(word("decimal(5,2)", "-1.5"), static_cast<uint64_t>(-150));
  EXPECT_EQ(word("decimal(5,2)", "1000"), std::nullopt);
  EXPECT_EQ(word("decimal(5,2)", "1.555"), std::nullopt);
  EXPECT_EQ(word("float64", "0.5"), 0x3fe0000000000000u);
  EXPECT_EQ(word("float32", "0.5"), 0x3f000000u);
  EXPECT_EQ(word("float32", "1.000000059604644775390625"), std::nullopt);  // just between two floats
  for (const auto* odd : {"01", "-", "+1", "1.", ".5", "1e", "NaN", "-0", "1e400", "0x1", "1 2"}) {
    EXPECT_EQ(word("float64", odd), std::nullopt) << odd;
  }
}

TEST(JsonFormat, ReadsPlainTimes) {
  constexpr uint64_t second = 1'000'000;
  EXPECT_EQ(word("timestamp", "\"1970-01-01T00:00:01.0000019Z\""), second + 1);
  EXPECT_EQ(word("timestamp", "\"1970-01-01 02:00:00\""), 3600 * second);  // an hour to the east
  EXPECT_EQ(word("timestamp", "\"1970-01-01T02:00:00+02:00\""), 0u);
  EXPECT_EQ(word("timestamp", "5"), 5 * second);
  EXPECT_EQ(word("timestamp_ntz", "\"1970-01-01 00:00:01\""), second);
  EXPECT_EQ(word("timestamp_ntz", "\"1970-01-01 00:00:01Z\""), std::nullopt);
  EXPECT_EQ(word("date", "\"1970-02-01\""), 31u);
  for (const auto* odd :
       {"\"2021-02-29\"", "\"2020-1-1\"", "\"\"", "\"1970-01-01T24:00:00Z\"", "9223372036855", "1.5"}) {
    EXPECT_EQ(word("timestamp", odd), std::nullopt) << odd;
  }
}

// Whatever times came before.
TEST(JsonFormat, ReadsTimesOneAfterAnother) {
  RecordReader reader(schema_of("timestamp"));
  std::mt19937 random(3);
  size_t read = 0;
  for (size_t round = 0; round < 20000; ++round) {
    const auto one_of = [&](std::initializer_list<const char*> choices) {
      return choices.begin()[random() % choices.size()];
    };
    const std::string value =
        std::string("\"") + one_of({"2020-02-29", "2020-02-28", "2021-02-29", "0001-01-01", "2x20-02-28"}) +
        one_of({"T", " ", "-"}) + one_of({"10:00:", "10:01:", "24:00:", "10:00-", "1:000:"}) +
        one_of({"00", "59", "60", "0", "5x"}) + one_of({"", ".5", "Z", ".123456789+05:30", "."}) + "\"";
    const std::string record = "{\"a\":" + value + "}";
    const auto row = reader.read(bytes_of(record));
    const auto expected = word("timestamp", value);
    ASSERT_EQ(row.has_value(), expected.has_value()) << record;
    if (!row) continue;
    EXPECT_EQ(load<uint64_t>(row->data() + 8), *expected) << record;
    ++read;
  }
  EXPECT_GT(read, 1000u);
  EXPECT_LT(read, 10000u);
}

TEST(JsonFormat, ReadsStrings) {
  EXPECT_EQ(text(R"("plain and longer than a word")"), "plain and longer than a word");
  EXPECT_EQ(text(R"("\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00")"), "\"\\/\b\f\n\r\t\u00fc\U0001f600");
  EXPECT_EQ(text("\"\u6f22\""), "\u6f22");
  for (const auto* odd :
       {R"("\ud83d")", R"("\x41")", "\"\n\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "1", "\"x"}) {
    EXPECT_EQ(text(odd), std::nullopt) << odd;
  }
}

TEST(JsonFormat, LeavesOtherRecordsToSpark) {
  RecordReader reader(schema_of("int64"));
  for (const auto* good : {"{}", " {\"a\":1}\n", R"({"b":[{"a":"x"},[]],"a":2})", R"({"A":"x"})"}) {
    EXPECT_TRUE(reader.read(bytes_of(good))) << good;
  }
  for (const auto* odd :
       {"", "null", "[]", "{", "{}{}", "{\"a\":1,}", "{\"a\":1,\"a\":1}", "{'a':1}", "{a:1}", "\xef\xbb\xbf{}",
        R"({"\u0061":1})", R"({"b":01})", R"({"b":"\x"})", R"({"b":[1,]})", "{\"a\":\"1\"}"}) {
    EXPECT_FALSE(reader.read(bytes_of(odd))) << odd;
  }
  for (const std::string& name : {std::string(20'000, 'b'), std::string(60'000, 'b')}) {
    EXPECT_FALSE(reader.read(bytes_of("{\"" + name + "\":1}")));
    EXPECT_FALSE(reader.read(bytes_of("{\"b\":{\"" + name + "\":1}}")));
  }
  const std::string deep = "{\"b\":" + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_FALSE(reader.read(bytes_of(deep)));
}

TEST(JsonFormat, ReadsStructs) {
  RecordReader reader("pyslash-json 1\nzone -\nstruct " + hex("s") + " 2\nfield string " + hex("t") + "\nfield int32 " +
                      hex("i") + "\nfield int32 " + hex("i") + "\n");
  const auto row = reader.read(bytes_of(R"({"s":{"i":7,"t":"text"},"i":8})"));
  ASSERT_TRUE(row);
  const auto place = load<uint64_t>(row->data() + 8);
  const uint8_t* inner = row->data() + (place >> 32);
  EXPECT_EQ(place & 0xffffffff, 8u + 2 * 8 + 8);
  EXPECT_EQ(load<uint64_t>(inner + 16), 7u);
  EXPECT_EQ(load<uint64_t>(inner + 8), uint64_t{24} << 32 | 4);
  EXPECT_EQ(load<uint64_t>(row->data() + 16), 8u);
  EXPECT_FALSE(reader.read(bytes_of(R"({"s":1})")));
}

// Strings, structs and the room of wide fields stand in the order of the schema, whatever the order of the members.
TEST(JsonFormat, GivesEqualStructsTheSameBytes) {
  RecordReader reader("pyslash-json 1\nzone -\nfield string " + hex("t") + "\nfield wide " + hex("w") + "\nstruct " +
                      hex("s") + " 4\nfield string " + hex("a") + "\nfield int32 " + hex("b") + "\nfield string " +
                      hex("c") + "\nfield wide " + hex("w") + "\nfield string " + hex("u") + "\n");
  std::vector<std::string> inner{R"("a":"of more than eight bytes")", R"("b":7)", R"("c":"")", R"("w":null)"};
  std::vector<std::vector<uint8_t>> rows;
  do {
    std::vector<std::string> outer{R"("t":"x")", R"("s":{)", R"("u":"y")"};
    for (size_t i = 0; i < inner.size(); ++i) outer[1] += (i == 0 ? "" : ",") + inner[i];
    outer[1] += "}";
    std::ranges::sort(outer);
    do {
      const std::string record = "{" + outer[0] + "," + outer[1] + "," + outer[2] + "}";
      const auto row = reader.read(bytes_of(record));
      ASSERT_TRUE(row) << record;
      rows.emplace_back(row->begin(), row->end());
      ASSERT_EQ(rows.back(), rows.front()) << record;
    } while (std::ranges::next_permutation(outer).found);
  } while (std::ranges::next_permutation(inner).found);
  EXPECT_EQ(rows.size(), 24u * 6);
  const uint8_t* const row = rows[0].data();
  const auto word = [&](size_t at) { return load<uint64_t>(row + at); };
  const auto place = [](uint64_t offset, uint64_t size) { return offset << 32 | size; };
  EXPECT_EQ(word(0), 2u);
  EXPECT_EQ(word(8), place(40, 1));
  EXPECT_EQ(word(16), place(48, 0));  // of the field that is null
  EXPECT_EQ(word(24), place(64, 80));
  EXPECT_EQ(word(32), place(144, 1));
  EXPECT_EQ(word(64), 8u);
  EXPECT_EQ(word(72), place(40, 24));
  EXPECT_EQ(word(80), 7u);
  EXPECT_EQ(word(88), place(64, 0));
  EXPECT_EQ(word(96), place(64, 0));
  EXPECT_EQ(rows[0].size(), 152u);
}

// What was learned of the layout of the records before does not change what a record is read as.
TEST(JsonFormat, ReadsRecordsOfAnyLayout) {
  const std::string schema = "pyslash-json 1\nzone 0\nfield int64 " + hex("a") + "\nstruct " + hex("s") +
                             " 2\nfield string " + hex("a") + "\nfield boolean " + hex("b") + "\nfield string " +
                             hex("t") + "\n";
  RecordReader experienced(schema);
  std::mt19937 random(7);
  const auto one_of = [&](const std::vector<std::string>& choices) { return choices[random() % choices.size()]; };
  const auto space = [&] { return one_of({"", "", "", " ", "\t ", "   "}); };
  size_t read = 0;
  for (size_t round = 0; round < 20000; ++round) {
    std::string record = space() + "{";
    const size_t members = random() % 5;
    for (size_t i = 0; i < members; ++i) {
      record += (i == 0 ? "" : ",") + space() + "\"" + one_of({"a", "s", "t", "x", std::string(40, 'n'), "\u00fc"}) +
                "\"" + space() + one_of({":", ":", ":", ":", ""}) + space() +
                one_of({"1", "-7", "null", "\"text\"", R"("a string of more than 32 bytes, \"\u00fc\"")", "[{}, 1]",
                        R"({"a": "x", "b": true})", R"({"b":false,"a":"y"})", R"({"a":"z"})"});
    }
    record += space() + one_of({"}", "}", "}", "}", "", ",}"}) + space();
    RecordReader fresh(schema);
    const auto expected = fresh.read(bytes_of(record));
    const auto found = experienced.read(bytes_of(record));
    ASSERT_EQ(found.has_value(), expected.has_value()) << record;
    if (!found) continue;
    ++read;
    ASSERT_TRUE(std::ranges::equal(*found, *expected)) << record;
  }
  EXPECT_GT(read, 2000u);
  EXPECT_LT(read, 18000u);
}

TEST(JsonFormat, RefusesOtherSchemas) {
  for (const auto* bad :
       {"", "pyslash-json 2\n", "pyslash-json 1\nzone x\n", "pyslash-json 1\nzone -\nfield int65 61\n",
        "pyslash-json 1\nzone -\nfield int64 6\n", "pyslash-json 1\nzone -\nfield binary 61\n",
        "pyslash-json 1\nzone -\nstruct 61 2\nfield int64 61\n"}) {
    expect_error(Status::invalid_plan, "", [&] { RecordReader reader(bad); });
  }
}

// Under ASan: no byte beyond the record is read, whatever is in it.
TEST(JsonFormat, StaysWithinDamagedRecords) {
  RecordReader reader("pyslash-json 1\nzone 0\nfield int64 " + hex("number") + "\nfield string " + hex("text") +
                      "\nfield timestamp " + hex("at") + "\nfield float64 " + hex("real") + "\n");
  const std::string whole =
      R"({"number": 12345, "text": "a \u00fc \ud83d\ude00 ü", "at": "2020-01-01T00:00:00.123456Z", "real": 1.5e3, "x": [null, {}]})";
  std::mt19937 random(1);
  size_t read = 0;
  for (size_t round = 0; round < 20000; ++round) {
    std::string record = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
    for (size_t flips = random() % 3; flips > 0 && !record.empty(); --flips) {
      record[random() % record.size()] = static_cast<char>(random());
    }
    const std::vector<uint8_t> exact(record.begin(), record.end());
    read += reader.read(exact).has_value();
  }
  EXPECT_GT(read, 5000u);
  EXPECT_LT(read, 15000u);
}

}  // namespace
}  // namespace pyslash
