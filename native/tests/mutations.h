// Seeded changes of bytes for fuzzing: what a torn write, a wrong offset or a forger makes of a block.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace pyslash {

// How many mutants a fuzz test makes; PYSLASH_FUZZ multiplies it.
inline uint64_t fuzz_iterations(uint64_t short_run) {
  const char* times = std::getenv("PYSLASH_FUZZ");
  return times == nullptr ? short_run : short_run * std::strtoull(times, nullptr, 10);
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t bound) { return random_() % bound; }

  // One to four changes within [begin, end).
  void mutate(std::vector<uint8_t>& bytes, size_t begin, size_t end) {
    if (end <= begin) return;
    for (uint64_t left = 1 + below(4); left > 0; --left) {
      const size_t at = begin + below(end - begin);
      switch (below(5)) {
        case 0:
          bytes[at] ^= static_cast<uint8_t>(1U << below(8));
          break;
        case 1:
          bytes[at] = static_cast<uint8_t>(random_());
          break;
        case 2:
          put(bytes, at / 4 * 4, end, static_cast<uint32_t>(interesting()));
          break;
        case 3:
          put(bytes, at / 8 * 8, end, interesting());
          break;
        default:
          std::memmove(bytes.data() + at, bytes.data() + begin + below(end - begin), 1);
      }
    }
  }

 private:
  uint64_t interesting() {
    static constexpr uint64_t values[] = {0,          1,          2,          63,         64,
                                          65,         0x7f,       0x80,       0xffff,     0x7fffffff,
                                          0x80000000, 0xffffffff, 1ull << 32, 1ull << 62, INT64_MAX,
                                          1ull << 63, UINT64_MAX, 10'000'000, 8192,       192};
    return values[below(std::size(values))] + (below(4) == 0 ? below(3) - 1 : 0);
  }
  template <typename T>
  void put(std::vector<uint8_t>& bytes, size_t at, size_t end, T value) {
    if (at + sizeof(T) <= end) std::memcpy(bytes.data() + at, &value, sizeof(T));
  }

  std::mt19937_64 random_;
};

}  // namespace pyslash
