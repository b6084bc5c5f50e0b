#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"
#include "pyslash/records.h"
#include "record_text.h"

namespace pyslash {
namespace {

std::string schema_of(std::string_view columns, std::string_view fields = "-", std::string_view null = "-") {
  return "pyslash-csv 1\nzone 3600\nseparator 2c\nescape 5c\nnull " + std::string(null) + "\nfields " +
         std::string(fields) + "\n" + std::string(columns);
}

// The word of the second of three fields; nothing if the line is left to Spark.
std::optional<uint64_t> word(std::string_view type, std::string_view value) {
  RecordReader reader(schema_of("field " + std::string(type) + " 1\n", "3"));
  const std::string record = "a," + std::string(value) + ",\"b,\"";
  const auto row = reader.read(bytes_of(record));
  if (!row) return std::nullopt;
  EXPECT_EQ(load<uint64_t>(row->data()), 0u) << value;
  return load<uint64_t>(row->data() + 8);
}

// The texts of the first three fields; "-" where one is null.
std::optional<std::vector<std::string>> texts(const std::string& schema, std::string_view record) {
  RecordReader reader(schema);
  const std::vector<uint8_t> exact(record.begin(), record.end());
  const auto row = reader.read(exact);
  if (!row) return std::nullopt;
  std::vector<std::string> found;
  for (size_t i = 0; i < 3; ++i) {
    const auto place = load<uint64_t>(row->data() + 8 + 8 * i);
    const bool is_null = (load<uint64_t>(row->data()) >> i & 1) != 0;
    found.push_back(is_null ? "-"
                            : std::string(reinterpret_cast<const char*>(row->data()) + (place >> 32),
                                          static_cast<uint32_t>(place)));
  }
  return found;
}

using Texts = std::vector<std::string>;
constexpr const char* three = "field string 0\nfield string 1\nfield string 2\n";

TEST(CsvFormat, ReadsValues) {
  EXPECT_EQ(word("boolean", "True"), 1u);
  EXPECT_EQ(word("boolean", "false"), 0u);
  EXPECT_EQ(word("boolean", "t"), std::nullopt);
  EXPECT_EQ(word("int8", "-128"), 0x80u);
  EXPECT_EQ(word("int8", "128"), std::nullopt);
  EXPECT_EQ(word("int64", "\"77\""), 77u);
  EXPECT_EQ(word("int64", "1000000000000000000"), std::nullopt);  // of 19 digits
  EXPECT_EQ(word("decimal(5,2)", "-1.5"), static_cast<uint64_t>(-150));
  EXPECT_EQ(word("decimal(5,2)", "1.555"), std::nullopt);
  EXPECT_EQ(word("float64", "0.5"), 0x3fe0000000000000u);
  EXPECT_EQ(word("float32", "1.000000059604644775390625"), std::nullopt);  // just between two floats
  EXPECT_EQ(word("timestamp", "1970-01-01 02:00:00"), 3'600'000'000u);     // an hour to the east
  EXPECT_EQ(word("timestamp_ntz", "1970-01-01T00:00:01"), 1'000'000u);
  EXPECT_EQ(word("timestamp_ntz", std::string(17, '\0') + "12"), std::nullopt);  // no minute, and none was before
  EXPECT_EQ(word("date", "1970-02-01"), 31u);
  for (const auto* odd : {" 1", "1 ", "+1", "01", "1d", "0x1", "NaN", "Inf", "-0", "1e400", "--1", "1-"}) {
    EXPECT_EQ(word("float64", odd), std::nullopt) << odd;
  }
}

TEST(CsvFormat, DividesLines) {
  const std::string schema = schema_of(three);
  EXPECT_EQ(texts(schema, "a,b,c"), (Texts{"a", "b", "c"}));
  EXPECT_EQ(texts(schema, "a,,\"\""), (Texts{"a", "-", "-"}));
  EXPECT_EQ(texts(schema, "a"), (Texts{"a", "-", "-"}));
  EXPECT_EQ(texts(schema, ",,"), (Texts{"-", "-", "-"}));
  EXPECT_EQ(texts(schema, "\"a,b\",\" \",c,d,e"), (Texts{"a,b", " ", "c"}));
  EXPECT_EQ(texts(schema, " \"a\",b\"c\", d "), (Texts{" \"a\"", "b\"c\"", " d "}));
  for (const std::string_view odd : std::initializer_list<std::string_view>{"\"a",
                                                                            "\"a\"b",
                                                                            "\"a\" ",
                                                                            "\"a\"\"b\"",
                                                                            "\"a\\\"\"",
                                                                            "\"a\\b\"",
                                                                            "\"",
                                                                            "a,b,c,\"d",
                                                                            "\xff",
                                                                            "a,\xc3",
                                                                            {"\0,a", 3}}) {
    EXPECT_EQ(texts(schema, odd), std::nullopt) << odd;
  }
  EXPECT_EQ(texts(schema, "a,b,c,\xff"), (Texts{"a", "b", "c"}));  // nobody reads it
}

// A field may begin and end anywhere in the blocks that are looked at as one, and none of them is behind the line.
TEST(CsvFormat, DividesLinesOfEveryLength) {
  for (size_t first = 1; first < 70; ++first) {
    for (size_t second = 0; second < 70; ++second) {
      for (const bool quoted : {false, true}) {
        const std::string quote = quoted ? "\"" : "";
        const std::string inner = quoted && second > 0 ? std::string(second - 1, 'b') + "," : std::string(second, 'b');
        const std::string line = std::string(first, 'a') + "," + quote + inner + quote + ",c";
        const Texts expected{std::string(first, 'a'), inner.empty() ? "-" : inner, "c"};
        ASSERT_EQ(texts(schema_of(three), line), expected) << line;
        ASSERT_EQ(texts(schema_of(three, "3"), line), expected) << line;
        ASSERT_EQ(texts(schema_of(three, "4"), line), std::nullopt) << line;
      }
    }
  }
}

TEST(CsvFormat, KnowsWhatIsNull) {
  const std::string schema = schema_of(three, "3", hex("NA"));
  EXPECT_EQ(texts(schema, "NA,\"NA\",x"), (Texts{"-", "-", "x"}));
  EXPECT_EQ(texts(schema, ",na,NAN"), (Texts{"-", "na", "NAN"}));
  EXPECT_EQ(texts(schema, "a,\"\",x"), std::nullopt);  // empty here, null at the end of a line
  RecordReader other(schema_of("field other 0\nfield none -\n"));
  EXPECT_TRUE(other.read(bytes_of(",x")));
  EXPECT_FALSE(other.read(bytes_of("y,x")));
}

TEST(CsvFormat, LeavesEmptyQuotesToSparkWhereQuotesEscape) {
  std::string schema = schema_of(three, "3");
  schema.replace(schema.find("5c"), 2, "22");
  EXPECT_EQ(texts(schema, "\"a\",\"b,\",\"c\""), (Texts{"a", "b,", "c"}));
  EXPECT_EQ(texts(schema, "a,\"\",c"), std::nullopt);
  EXPECT_EQ(texts(schema, "a,\"b\"\"\",c"), std::nullopt);
  EXPECT_EQ(texts(schema, "a,\"b\\\",c"), (Texts{"a", "b\\", "c"}));
}

TEST(CsvFormat, LeavesLinesOfManyFieldsToSpark) {
  RecordReader some(schema_of("field string 0\n"));
  RecordReader last(schema_of("field string 19999\n"));
  for (const auto& [fields, expected] : {std::pair{5'000, true}, {9'000, true}, {20'000, true}, {20'001, false}}) {
    const std::string line(fields - 1, ',');
    EXPECT_EQ(some.read(bytes_of(line)).has_value(), expected) << fields;
    EXPECT_EQ(last.read(bytes_of(line)).has_value(), expected) << fields;
  }
}

TEST(CsvFormat, PassesOverBlankLines) {
  RecordReader reader(schema_of("field string 0\n"));
  const std::string text = " \n\t \n\n\x01\nx\n ,\n";
  const auto& lines = reader.read_lines({.bytes = bytes_of(text), .last_start = text.size(), .is_end = true});
  EXPECT_EQ(lines.lines.size(), 2u);
  EXPECT_EQ(lines.left, 0u);
}

TEST(CsvFormat, RefusesOtherSchemas) {
  const std::string good = schema_of("field int64 1\nfield int64 0\nfield none -\n", "2");
  RecordReader reader(good);
  for (const auto& [part, bad] : {std::pair{"csv 1", "csv 2"},
                                  {"zone 3600", "zone x"},
                                  {"2c", "c3bc"},
                                  {"2c", "2"},
                                  {"5c", "-"},
                                  {"fields 2", "fields x"},
                                  {"int64 1", "int64 0"},
                                  {"int64 1", "int64 -1"},
                                  {"int64 1", "int64 20000"},
                                  {"int64 1", "binary 1"},
                                  {"none -", "none 2"}}) {
    std::string schema = good;
    schema.replace(schema.find(part), std::string_view(part).size(), bad);
    expect_error(Status::invalid_plan, "", [&] { RecordReader reader(schema); });
  }
}

// Under ASan: no byte beyond the line is read, whatever is in it; and what one line had is not in the next.
TEST(CsvFormat, StaysWithinDamagedLines) {
  const std::string schema = schema_of(
      "field int64 0\nfield string 1\nfield timestamp 2\nfield float64 3\nfield date 4\nfield string 6\n", "7");
  RecordReader experienced(schema);
  const std::string whole = R"(12345,"a ü, 漢",2020-01-01T00:00:00.123456Z,1.5e3,2020-01-01,x,"the last")";
  std::mt19937 random(1);
  size_t read = 0;
  for (size_t round = 0; round < 20000; ++round) {
    std::string line = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
    for (size_t flips = random() % 3; flips > 0 && !line.empty(); --flips) {
      line[random() % line.size()] = random() % 2 == 0 ? static_cast<char>(random()) : ",\"\\ 0x"[random() % 6];
    }
    const std::vector<uint8_t> exact(line.begin(), line.end());
    RecordReader fresh(schema);
    const auto expected = fresh.read(exact);
    const auto found = experienced.read(exact);
    ASSERT_EQ(found.has_value(), expected.has_value()) << line;
    if (!found) continue;
    ++read;
    ASSERT_TRUE(std::ranges::equal(*found, *expected)) << line;
  }
  EXPECT_GT(read, 4000u);
  EXPECT_LT(read, 16000u);
}

}  // namespace
}  // namespace pyslash
