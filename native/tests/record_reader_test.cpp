#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "expect_error.h"
#include "pyslash/records.h"
#include "record_text.h"

namespace pyslash {
namespace {

// A text of lines of one format.
struct Text {
  std::string schema;
  std::string text;
  bool has_header;
  std::string header;
  std::vector<std::string> lines;
  std::vector<std::string> left;  // of them
};

const std::vector<Text> texts{
    {"pyslash-json 1\nzone -\nfield int64 61\n",
     "{}\n{\"a\":1}\r\n\r[]\r\r\n{\"a\":22}\n\n{\"a\":3",
     false,
     "",
     {"{}", "{\"a\":1}", "[]", "{\"a\":22}", "{\"a\":3"},
     {"[]", "{\"a\":3"}},
    {"pyslash-csv 1\nzone -\nseparator 2c\nescape 5c\nnull -\nfields 2\nfield int64 0\nfield string 1\n",
     "a,b\r\n1,x\n\n \r\r\n22,\"y,\r3\r\n,\"z\"\n4,z",
     true,
     "a,b",
     {"1,x", "22,\"y,", "3", ",\"z\"", "4,z"},
     {"22,\"y,", "3"}},
};

// Of the text, cut anywhere into parts that are read in pages of any size, each line is read once, by the part that it
// starts in or just behind of; the header is none of them.
TEST(RecordReader, ReadsEachLineOfAFileOnce) {
  for (const Text& one : texts) {
    const std::string& text = one.text;
    RecordReader reader(one.schema);
    for (size_t part = 1; part <= text.size(); ++part) {
      for (size_t step = 1; step <= text.size(); ++step) {
        std::vector<std::string> found;
        std::string header;
        for (size_t begin = 0; begin < text.size(); begin += part) {
          const size_t end = begin + part;
          size_t start = begin;
          size_t size = 0;
          bool skips = begin != 0;
          bool has_header = one.has_header && begin == 0;
          while (true) {
            size = std::min(size + step, text.size() - start);
            const bool is_end = start + size == text.size();
            const std::vector<uint8_t> page(text.begin() + start, text.begin() + start + size);
            const auto& lines = reader.read_lines({page, end - start, skips, has_header, is_end});
            if (!lines.header.empty()) {
              header.assign(lines.header.begin(), lines.header.end());
              has_header = false;
            }
            for (const auto& line : lines.lines) {
              found.emplace_back(line.text.begin(), line.text.end());
              EXPECT_EQ(line.row.empty(), std::ranges::count(one.left, found.back()) == 1) << found.back();
            }
            skips = skips && lines.consumed == 0;
            start += lines.consumed;
            size -= lines.consumed;
            if (is_end || start > end) break;
          }
        }
        ASSERT_EQ(found, one.lines) << part << " " << step;
        ASSERT_EQ(header, one.header) << part << " " << step;
      }
    }
  }
}

// Rows stand behind their sizes, and the reader stops where it has no room for another one.
TEST(RecordReader, FillsPagesOfRows) {
  RecordReader reader("pyslash-json 1\nzone -\nfield string 61\n", true);
  std::string text;
  for (size_t i = 0; i < 60'000; ++i) text += i % 1000 == 999 ? "?\n" : "{\"a\":\"" + std::to_string(i) + "\"}\n\n";
  size_t at = 0;
  size_t row = 0;
  size_t left = 0;
  size_t pages = 0;
  while (at < text.size()) {
    const Bytes rest = bytes_of(std::string_view(text).substr(at));
    const auto& lines = reader.read_lines({.bytes = rest, .last_start = rest.size(), .is_end = true});
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

// A header longer than the page comes with a later one, and no blank line is it.
TEST(RecordReader, FindsTheHeaderBehindBlankLines) {
  RecordReader reader(texts[1].schema);
  const auto header = [&](std::string_view page, bool is_end) {
    const auto& lines =
        reader.read_lines({.bytes = bytes_of(page), .last_start = page.size(), .has_header = true, .is_end = is_end});
    return std::pair(std::string(lines.header.begin(), lines.header.end()), lines.lines.size());
  };
  EXPECT_EQ(header("\n \n\t\r\n", false), std::pair(std::string(), size_t{0}));
  EXPECT_EQ(header(" \na,b", false), std::pair(std::string(), size_t{0}));
  EXPECT_EQ(header(" \na,b", true), std::pair(std::string("a,b"), size_t{0}));
  EXPECT_EQ(header("\na,b\n1,x\n", false), std::pair(std::string("a,b"), size_t{1}));
}

TEST(RecordReader, RefusesOtherFormats) {
  for (const auto* bad : {"", "pyslash-xml 1\n", "pyslash-json", "pyslash-plan 1\n"}) {
    expect_error(Status::invalid_plan, "", [&] { RecordReader reader(bad); });
  }
}

}  // namespace
}  // namespace pyslash
