// Accumulators sealed into plain memory, and blocks read back segment by segment.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "model.h"
#include "pyslash/accumulator.h"
#include "pyslash/aggregate.h"
#include "pyslash/block.h"
#include "pyslash/hash.h"
#include "pyslash/key_table.h"
#include "pyslash/seal.h"
#include "pyslash/segment.h"

namespace pyslash {

struct Sealed {
  std::vector<uint8_t> head;
  std::vector<uint8_t> block;
};

inline Sealed sealed(const Accumulator& accumulator) {
  BlockWriter writer(accumulator.plan(), accumulator.panes());
  Sealed result;
  result.block.assign(writer.bytes(), 0xa5);  // an arena's memory is not fresh
  result.head = writer.write(result.block, {{1, 2, 3}, 7, 8}, {4, 5, 6}, 4096,
                             {accumulator.rows(), accumulator.late_rows(), accumulator.max_event_time()});
  return result;
}

// Results of all groups of a block, each pane's segments merged into one table.
inline Groups read_groups(const Plan& plan, const std::vector<uint8_t>& block) {
  Groups groups;
  if (block.empty()) return groups;
  const Head head = read_head(block);
  const KeyCodec codec(plan);
  SegmentReader reader(plan);
  EncodedKeys encoded;
  for (size_t i = 0; i < head.segments.size();) {
    const int64_t pane = head.segments[i].pane;
    GroupKeys keys(codec);
    KeyTable table;
    StateSet states(plan);
    for (; i < head.segments.size() && head.segments[i].pane == pane; ++i) {
      const SegmentEntry& entry = head.segments[i];
      reader.open(entry, Bytes(block).subspan(entry.offset, entry.length));
      codec.encode(reader.keys(), reader.rows(), encoded);
      for (const uint64_t hash : encoded.hashes) {
        EXPECT_GE(prefix_of(hash), entry.prefix_lo);
        EXPECT_LT(prefix_of(hash), entry.prefix_hi());
      }
      std::vector<uint32_t> ids(reader.rows());
      table.find_or_insert(encoded, reader.rows(), keys, ids.data());
      states.resize(keys.size());
      for (size_t state = 0; state < states.size(); ++state)
        states[state].merge(reader.state(state), ids.data(), ids.size());
    }
    std::vector<uint32_t> ids(keys.size());
    for (uint32_t group = 0; group < ids.size(); ++group) ids[group] = group;
    std::vector<ResultColumn> columns(plan.keys().size());
    keys.decode(ids, columns);
    for (const auto& aggregate : plan.aggregates()) {
      aggregate->finish(states, ids, columns.emplace_back());
      EXPECT_TRUE(columns.back().type == aggregate->result_type());
      EXPECT_TRUE(aggregate->result_nullable() || columns.back().valid.empty());
    }
    for (size_t row = 0; row < ids.size(); ++row) {
      std::vector<std::string> texts;
      for (const ResultColumn& column : columns) texts.push_back(text_of(column, row));
      const auto results = texts.begin() + static_cast<std::ptrdiff_t>(plan.keys().size());
      const std::vector<std::string> group(texts.begin(), results);
      EXPECT_TRUE(groups.emplace(std::pair{pane, group}, std::vector<std::string>(results, texts.end())).second);
    }
  }
  return groups;
}

}  // namespace pyslash
