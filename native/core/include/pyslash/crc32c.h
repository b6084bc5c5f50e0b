// CRC32C (Castagnoli, RFC 3720), the checksum of every block head and segment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyslash {

// CRC of `size` bytes; pass the result of an earlier call as `crc` to continue over a second piece.
uint32_t crc32c(const void* data, size_t size, uint32_t crc = 0);

// Table-driven form, used where the CPU has no instruction for it and as the reference in tests.
uint32_t crc32c_portable(const void* data, size_t size, uint32_t crc = 0);

}  // namespace pyslash
