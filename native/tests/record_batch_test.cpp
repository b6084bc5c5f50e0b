#include "pyslash/record_batch.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace pyslash {
namespace {

bool bit(const Buffer& bitmap, size_t i) { return (bitmap.data()[i / 8] >> (i % 8) & 1) != 0; }

Type type_of(const char* name) { return Type::parse(name); }

TEST(RecordBatch, BitmapsGrowAcrossPiecesOfAnyLength) {
  std::mt19937 random(5);
  ArrowColumn column(type_of("boolean"));
  std::vector<bool> valid;
  std::vector<bool> values;
  for (const size_t rows : {3, 0, 8, 1, 13, 64, 5, 7}) {
    ResultColumn piece{};
    piece.type = column.type;
    const bool has_nulls = rows != 3 && random() % 2 == 0;
    for (size_t i = 0; i < rows; ++i) {
      values.push_back(random() % 2 == 0);
      valid.push_back(!has_nulls || random() % 3 != 0);
      piece.values.push_back(values.back());
      if (has_nulls) piece.valid.push_back(valid.back());
    }
    column.append(piece, values.size() - rows, rows);
  }
  EXPECT_EQ(column.nulls, std::count(valid.begin(), valid.end(), false));
  ASSERT_GT(column.nulls, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(bit(column.values, i), values[i]) << i;
    ASSERT_EQ(bit(column.validity, i), valid[i]) << i;
  }
}

TEST(RecordBatch, WithoutNullsThereIsNoBitmap) {
  ArrowColumn column(type_of("int16"));
  ResultColumn piece{};
  piece.type = column.type;
  piece.values = {1, 0, 2, 0};
  piece.valid = {1, 1};
  column.append(piece, 0, 2);
  EXPECT_EQ(column.nulls, 0);
  EXPECT_EQ(column.validity.size(), 0u);
  EXPECT_EQ(column.values.size(), 4u);
}

TEST(RecordBatch, OffsetsContinueOverPieces) {
  ArrowColumn column(type_of("string"));
  size_t rows = 0;
  for (const auto& words : {std::vector<std::string>{"a", "", "bc"}, {}, {"def"}}) {
    ResultColumn piece{};
    piece.type = column.type;
    piece.offsets.push_back(0);
    for (const std::string& word : words) {
      piece.values.insert(piece.values.end(), word.begin(), word.end());
      piece.offsets.push_back(static_cast<int32_t>(piece.values.size()));
    }
    column.append(piece, rows, words.size());
    rows += words.size();
  }
  std::vector<int32_t> offsets(5);
  ASSERT_EQ(column.offsets.size(), offsets.size() * sizeof(int32_t));
  std::memcpy(offsets.data(), column.offsets.data(), column.offsets.size());
  EXPECT_EQ(offsets, (std::vector<int32_t>{0, 1, 1, 3, 6}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(column.values.data()), column.values.size()), "abcdef");
  EXPECT_TRUE(column.has_room(INT32_MAX - 6));
  EXPECT_FALSE(column.has_room(INT32_MAX - 5));
}

TEST(RecordBatch, ShortDecimalsBecome128Bits) {
  ArrowColumn column(type_of("decimal(7,2)"));
  ResultColumn piece{};
  piece.type = column.type;
  piece.values.resize(16);
  store<int64_t>(piece.values.data(), 0, -5);
  store<int64_t>(piece.values.data(), 1, 12345);
  column.append(piece, 0, 2);
  EXPECT_EQ(load<int64_t>(column.values.data(), 0), -5);
  EXPECT_EQ(load<int64_t>(column.values.data(), 1), -1);
  EXPECT_EQ(load<int64_t>(column.values.data(), 2), 12345);
  EXPECT_EQ(load<int64_t>(column.values.data(), 3), 0);
}

TEST(RecordBatch, BuffersAreAlignedAndKeepTheirBytes) {
  Buffer buffer;
  buffer.append(nullptr, 0);
  EXPECT_EQ(buffer.size(), 0u);
  for (uint8_t i = 0; i < 200; ++i) buffer.append(&i, 1);
  buffer.reserve(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  for (size_t i = 0; i < 200; ++i) ASSERT_EQ(buffer.data()[i], i);
}

}  // namespace
}  // namespace pyslash
