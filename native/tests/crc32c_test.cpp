#include "pyslash/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace pyslash {
namespace {

TEST(Crc32c, KnownAnswers) {  // RFC 3720, appendix B.4
  const std::vector<uint8_t> zeros(32, 0x00);
  const std::vector<uint8_t> ones(32, 0xff);
  std::vector<uint8_t> ascending(32);
  for (size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(crc32c(zeros.data(), zeros.size()), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones.data(), ones.size()), 0x62a8ab43u);
  EXPECT_EQ(crc32c(ascending.data(), ascending.size()), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

// Sizes around the lanes of 256 and 4096 bytes, at every alignment.
TEST(Crc32c, AgreesWithTheTableAtEverySizeAndAlignment) {
  std::mt19937 random(1);
  std::vector<uint8_t> bytes(40000);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  for (const size_t size : {1, 7, 8, 9, 255, 767, 768, 769, 1536, 4095, 12287, 12288, 12289, 13056, 24576, 30001}) {
    for (size_t start = 0; start < 9; ++start) {
      ASSERT_EQ(crc32c(bytes.data() + start, size), crc32c_portable(bytes.data() + start, size))
          << size << "@" << start;
    }
  }
}

TEST(Crc32c, ContinuesOverPieces) {
  std::mt19937 random(2);
  std::vector<uint8_t> bytes(20000);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  const uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (const size_t cut : {0, 1, 100, 12288, 19999, 20000}) {
    const uint32_t first = crc32c(bytes.data(), cut);
    EXPECT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, first), whole) << cut;
    EXPECT_EQ(crc32c_portable(bytes.data() + cut, bytes.size() - cut, first), whole) << cut;
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::vector<uint8_t> bytes(900, 0x5a);
  const uint32_t intact = crc32c(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    ASSERT_NE(crc32c(bytes.data(), bytes.size()), intact) << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace pyslash
