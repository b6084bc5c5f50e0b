#include "decode/utf8.h"

namespace pyslash {

size_t utf8_size(const uint8_t* at, const uint8_t* end) {
  const auto continues = [&](size_t i, uint8_t least, uint8_t most) {
    return static_cast<size_t>(end - at) > i && at[i] >= least && at[i] <= most;
  };
  const uint8_t lead = at[0];
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1, 0x80, 0xbf) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const uint8_t least = lead == 0xe0 ? 0xa0 : 0x80;
    const uint8_t most = lead == 0xed ? 0x9f : 0xbf;
    return continues(1, least, most) && continues(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const uint8_t least = lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t most = lead == 0xf4 ? 0x8f : 0xbf;
    return continues(1, least, most) && continues(2, 0x80, 0xbf) && continues(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

}  // namespace pyslash
