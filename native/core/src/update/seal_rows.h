// Segments of rows into a published block.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pyslash/block.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"

namespace pyslash {

// Lays the segments out one behind the other (their entries are in order, without offset and CRC), has `write` fill
// each of them, and returns the head; of no segments, a head alone. Status::arena_full if there is no room.
std::vector<uint8_t> seal_rows(const Plan& plan, Arena& arena, const BlockIdentity& identity,
                               std::vector<SegmentEntry> segments, const BlockFigures& figures,
                               const std::function<void(size_t segment, std::span<uint8_t> out)>& write);

}  // namespace pyslash
