#include "joins/join_segment.h"

#include <string>

#include "merge/keyed_segment.h"
#include "pyslash/error.h"
#include "pyslash/hash.h"

namespace pyslash {

void JoinSegment::open(const SegmentBytes& segment, PrefixRange range) {
  reader_.open(segment.entry, segment.bytes);
  batch_.rows = reader_.rows();
  batch_.columns.assign(reader_.keys().begin(), reader_.keys().end());
  for (size_t i = 0; i < batch_.columns.size(); ++i) {
    if (batch_.columns[i].valid != nullptr) {
      throw Error(Status::corrupt_block, "column " + std::to_string(i) + " of rows of a join holds a null");
    }
  }
  keys_.encode(batch_);
  check_prefixes(segment.entry, hashes());
  rows_.clear();
  for (uint32_t row = 0; row < batch_.rows; ++row) {
    const uint64_t prefix = prefix_of(hashes()[row]);
    if (range.lo <= prefix && prefix < range.hi) rows_.push_back(row);
  }
}

}  // namespace pyslash
