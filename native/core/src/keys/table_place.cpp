#include "table_place.h"

#include <sys/random.h>
#include <unistd.h>

#include "pyslash/hash.h"

namespace pyslash {
namespace {

uint64_t random_odd_number() {
  uint64_t value = 0;
  // Before the pool of the system is ready, right after its boot, an address that it has randomised will do.
  if (::getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value) {
    value = mix64(reinterpret_cast<uintptr_t>(&value)) ^ static_cast<uint64_t>(::getpid());
  }
  return value | 1;
}

}  // namespace

const uint64_t table_secret = random_odd_number();

}  // namespace pyslash
