// How the objects of one place spell their members: writers keep to one order and one layout, so what leads to a value
// (`, "name":`) is mostly what led to it in the record before, and need not be read again.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "decode/cursor.h"

namespace pyslash {

class Shape {
 public:
  // Whether the text goes on as it did before the value of this number; then the cursor stands behind the colon, and
  // `field` is what the value is read into.
  bool take(JsonCursor& text, size_t number, size_t& field) const {
    if (number >= leads_.size() || !text.take(leads_[number].text.data(), leads_[number].size)) return false;
    field = leads_[number].field;
    return true;
  }

  // What led to the value of this number, all of it checked.
  void learn(size_t number, const uint8_t* begin, const uint8_t* end, size_t field) {
    constexpr size_t most_members = 256;
    if (number > leads_.size() || number >= most_members) return;
    if (number == leads_.size()) leads_.emplace_back();
    Lead& lead = leads_[number];
    const auto size = static_cast<size_t>(end - begin);
    lead.size = size <= lead.text.size() ? size : 0;
    std::memcpy(lead.text.data(), begin, lead.size);
    lead.field = field;
  }

 private:
  struct Lead {
    std::array<uint8_t, JsonCursor::most_taken> text{};
    size_t size = 0;  // 0: it was longer
    size_t field = 0;
  };

  std::vector<Lead> leads_;
};

}  // namespace pyslash
