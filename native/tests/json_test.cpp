#include "pyslash/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"

namespace pyslash {
namespace {

std::string hex(std::string_view name) {
  std::string digits;
  for (const char byte : name) {
    digits += "0123456789abcdef"[static_cast<uint8_t>(byte) >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

std::string schema_of(std::string_view type) {
  return "pyslash-json 1\nzone 3600\nfield " + std::string(type) + " " + hex("a") + "\n";
}

Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

// The word of the one field of a record {"a": value}; nothing if it is left to Spark.
std::optional<uint64_t> word(std::string_view type, std::string_view value) {
  JsonReader reader(schema_of(type));
  const std::string record = "{\"a\": " + std::string(value) + "}";
  const auto row = reader.read(bytes_of(record));
  if (!row) return std::nullopt;
  EXPECT_EQ(load<uint64_t>(row->data()), 0u) << value;
  return load<uint64_t>(row->data() + 8);
}

std::optional<std::string> text(std::string_view value) {
  JsonReader reader(schema_of("string"));
  const std::string record = "{\"a\":" + std::string(value) + "}";
  const auto row = reader.read(bytes_of(record));
  if (!row) return std::nullopt;
  const auto place = load<uint64_t>(row->data() + 8);
  EXPECT_EQ(row->size() % 8, 0u);
  return std::string(reinterpret_cast<const char*>(row->data()) + (place >> 32), place & 0xffffffff);
}

TEST(JsonReader, ReadsNumbersThatFit) {
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

TEST(JsonReader, ReadsPlainTimes) {
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
TEST(JsonReader, ReadsTimesOneAfterAnother) {
  JsonReader reader(schema_of("timestamp"));
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

TEST(JsonReader, ReadsStrings) {
  EXPECT_EQ(text(R"("plain and longer than a word")"), "plain and longer than a word");
  EXPECT_EQ(text(R"("\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00")"), "\"\\/\b\f\n\r\t\u00fc\U0001f600");
  EXPECT_EQ(text("\"\u6f22\""), "\u6f22");
  for (const auto* odd :
       {R"("\ud83d")", R"("\x41")", "\"\n\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "1", "\"x"}) {
    EXPECT_EQ(text(odd), std::nullopt) << odd;
  }
}

TEST(JsonReader, LeavesOtherRecordsToSpark) {
  JsonReader reader(schema_of("int64"));
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

TEST(JsonReader, ReadsStructs) {
  JsonReader reader("pyslash-json 1\nzone -\nstruct " + hex("s") + " 2\nfield string " + hex("t") + "\nfield int32 " +
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

// Of the text, cut anywhere into parts that are read in pages of any size, each line is read once, by the part that it
// starts in or just behind of.
TEST(JsonReader, ReadsEachLineOfAFileOnce) {
  const std::string text = "{}\n{\"a\":1}\r\n\r[]\r\r\n{\"a\":22}\n\n{\"a\":3";
  const std::vector<std::string> wanted = {"{}", "{\"a\":1}", "[]", "{\"a\":22}", "{\"a\":3"};
  JsonReader reader(schema_of("int64"));
  for (size_t part = 1; part <= text.size(); ++part) {
    for (size_t step = 1; step <= text.size(); ++step) {
      std::vector<std::string> found;
      for (size_t begin = 0; begin < text.size(); begin += part) {
        const size_t end = begin + part;
        size_t start = begin;
        size_t size = 0;
        bool skips = begin != 0;
        while (true) {
          size = std::min(size + step, text.size() - start);
          const bool is_end = start + size == text.size();
          const std::vector<uint8_t> page(text.begin() + start, text.begin() + start + size);
          const auto& lines = reader.read_lines(page, end - start, skips, is_end);
          for (const auto& line : lines.lines) {
            found.emplace_back(reinterpret_cast<const char*>(line.text.data()), line.text.size());
            EXPECT_EQ(line.row.empty(), !found.back().ends_with('}')) << found.back();
          }
          skips = skips && lines.consumed == 0;
          start += lines.consumed;
          size -= lines.consumed;
          if (is_end || start > end) break;
        }
      }
      ASSERT_EQ(found, wanted) << part << " " << step;
    }
  }
}

// What was learned of the layout of the records before does not change what a record is read as.
TEST(JsonReader, ReadsRecordsOfAnyLayout) {
  const std::string schema = "pyslash-json 1\nzone 0\nfield int64 " + hex("a") + "\nstruct " + hex("s") +
                             " 2\nfield string " + hex("a") + "\nfield boolean " + hex("b") + "\nfield string " +
                             hex("t") + "\n";
  JsonReader experienced(schema);
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
    JsonReader fresh(schema);
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

// Rows stand behind their sizes, and the reader stops where it has no room for another one.
TEST(JsonReader, FillsPagesOfRows) {
  JsonReader reader(schema_of("string"), true);
  std::string text;
  for (size_t i = 0; i < 60'000; ++i) text += i % 1000 == 999 ? "?\n" : "{\"a\":\"" + std::to_string(i) + "\"}\n\n";
  size_t at = 0;
  size_t row = 0;
  size_t left = 0;
  size_t pages = 0;
  while (at < text.size()) {
    const auto& lines = reader.read_lines(bytes_of(std::string_view(text).substr(at)), text.size() - at, false, true);
    ASSERT_EQ(lines.is_full, at + lines.consumed < text.size());
    at += lines.consumed;
    left += lines.left;
    ++pages;
    const uint8_t* place = lines.rows.data();
    for (const auto& line : lines.lines) {
      if (line.row.empty()) continue;
      EXPECT_EQ(load<uint64_t>(place), line.row.size());
      EXPECT_EQ(place + 8, line.row.data());
      const auto of = load<uint64_t>(place + 16);
      const std::string number = std::to_string(row % 999 + row / 999 * 1000);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(place) + 8 + (of >> 32), of & 0xffffffff), number);
      place += 8 + line.row.size();
      ++row;
    }
    EXPECT_EQ(place, lines.rows.data() + lines.rows.size());
  }
  EXPECT_EQ(row, 59'940u);
  EXPECT_EQ(left, 60u);
  EXPECT_GT(pages, 1u);
}

TEST(JsonReader, RefusesOtherSchemas) {
  for (const auto* bad :
       {"", "pyslash-json 2\n", "pyslash-json 1\nzone x\n", "pyslash-json 1\nzone -\nfield int65 61\n",
        "pyslash-json 1\nzone -\nfield int64 6\n", "pyslash-json 1\nzone -\nfield binary 61\n",
        "pyslash-json 1\nzone -\nstruct 61 2\nfield int64 61\n"}) {
    expect_error(Status::invalid_plan, "", [&] { JsonReader reader(bad); });
  }
}

// Under ASan: no byte beyond the record is read, whatever is in it.
TEST(JsonReader, StaysWithinDamagedRecords) {
  JsonReader reader("pyslash-json 1\nzone 0\nfield int64 " + hex("number") + "\nfield string " + hex("text") +
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
