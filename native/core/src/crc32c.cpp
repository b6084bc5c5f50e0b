#include "pyslash/crc32c.h"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace pyslash {
namespace {

constexpr uint32_t polynomial = 0x82f63b78;  // reflected Castagnoli

using ByteTable = std::array<uint32_t, 256>;

// tables[k][b]: the CRC register after byte b and then k zero bytes.
constexpr std::array<ByteTable, 8> make_slice_tables() {
  std::array<ByteTable, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  }
  return tables;
}

constexpr auto slices = make_slice_tables();

uint64_t load64(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

uint32_t portable_register(uint32_t crc, const uint8_t* p, size_t size) {
  for (; size >= 8; p += 8, size -= 8) {
    const uint64_t word = load64(p) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= slices[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; ++p, --size) crc = (crc >> 8) ^ slices[0][(crc ^ *p) & 0xff];
  return crc;
}

#if defined(__SSE4_2__)

// The crc32 instruction has a latency of three cycles and a throughput of one, so three independent lanes are run
// side by side; a lane's register is carried over the bytes of the next one by a linear map, kept as four tables.
using ShiftTable = std::array<ByteTable, 4>;
using Matrix = std::array<uint32_t, 32>;  // column i: the image of bit i

constexpr uint32_t image(const Matrix& m, uint32_t v) {
  uint32_t sum = 0;
  for (size_t i = 0; i < 32; ++i) sum ^= ((v >> i) & 1) != 0 ? m[i] : 0;
  return sum;
}

// The map "append `bytes` zero bytes"; bytes is a power of two.
constexpr ShiftTable make_shift(size_t bytes) {
  Matrix m{};
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t v = uint32_t{1} << i;
    m[i] = (v >> 8) ^ slices[0][v & 0xff];
  }
  for (; bytes > 1; bytes /= 2) {
    Matrix squared{};
    for (size_t i = 0; i < 32; ++i) squared[i] = image(m, m[i]);
    m = squared;
  }
  ShiftTable table{};
  for (size_t k = 0; k < 4; ++k) {
    for (uint32_t b = 0; b < 256; ++b) table[k][b] = image(m, b << (8 * k));
  }
  return table;
}

constexpr size_t long_lane = 4096;
constexpr size_t short_lane = 256;
constexpr ShiftTable long_shift = make_shift(long_lane);
constexpr ShiftTable short_shift = make_shift(short_lane);

uint64_t shift(const ShiftTable& table, uint64_t crc) {
  return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
}

template <size_t lane>
uint64_t three_lanes(const ShiftTable& table, uint64_t crc0, const uint8_t*& p, size_t& size) {
  while (size >= 3 * lane) {
    uint64_t crc1 = 0;
    uint64_t crc2 = 0;
    for (size_t i = 0; i < lane; i += 8) {
      crc0 = _mm_crc32_u64(crc0, load64(p + i));
      crc1 = _mm_crc32_u64(crc1, load64(p + i + lane));
      crc2 = _mm_crc32_u64(crc2, load64(p + i + 2 * lane));
    }
    crc0 = shift(table, crc0) ^ crc1;
    crc0 = shift(table, crc0) ^ crc2;
    p += 3 * lane;
    size -= 3 * lane;
  }
  return crc0;
}

uint32_t hardware_register(uint32_t start, const uint8_t* p, size_t size) {
  uint64_t crc = three_lanes<long_lane>(long_shift, start, p, size);
  crc = three_lanes<short_lane>(short_shift, crc, p, size);
  for (; size >= 8; p += 8, size -= 8) crc = _mm_crc32_u64(crc, load64(p));
  auto tail = static_cast<uint32_t>(crc);
  for (; size > 0; ++p, --size) tail = _mm_crc32_u8(tail, *p);
  return tail;
}

#endif

}  // namespace

uint32_t crc32c_portable(const void* data, size_t size, uint32_t crc) {
  return ~portable_register(~crc, static_cast<const uint8_t*>(data), size);
}

uint32_t crc32c(const void* data, size_t size, uint32_t crc) {
#if defined(__SSE4_2__)
  return ~hardware_register(~crc, static_cast<const uint8_t*>(data), size);
#else
  return crc32c_portable(data, size, crc);
#endif
}

}  // namespace pyslash
