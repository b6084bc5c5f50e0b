// Many blocks into one, without the panes that no open window needs any more.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pyslash/arena.h"
#include "pyslash/plan.h"
#include "pyslash/seal.h"

namespace pyslash {

// Folds the blocks at `offsets` (published or committed, left as they are) into a new published block that holds their
// panes from `first_live_pane` on, and returns its head; nothing if no such pane is left. Rows and late rows are those
// of all inputs together. Status::corrupt_block if an input fails a check, Status::invalid_plan if it is of another
// plan, Status::arena_full if there is no room for the result.
std::vector<uint8_t> compact(std::shared_ptr<const Plan> plan, Arena& arena, std::span<const uint64_t> offsets,
                             int64_t first_live_pane, const BlockIdentity& identity);

}  // namespace pyslash
