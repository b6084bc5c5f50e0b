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

// Of the hash prefixes of all keys, the `index`-th of `of` equal ranges; `of` is a power of two.
struct PrefixShare {
  uint32_t index = 0;
  uint32_t of = 1;
};

// Folds the blocks at `offsets` (published or committed, left as they are) into a new published block that holds their
// panes from `first_live_pane` on, of the keys of a share; returns its head, nothing if no such group is left. Rows and
// late rows are those of all inputs together in the first share, and none in the others. Status::corrupt_block if an
// input fails a check, Status::invalid_plan if it is of another plan, Status::arena_full if there is no room for the
// result, Status::invalid_input if there is no such share.
std::vector<uint8_t> compact(std::shared_ptr<const Plan> plan, Arena& arena, std::span<const uint64_t> offsets,
                             int64_t first_live_pane, const BlockIdentity& identity, PrefixShare share = {});

}  // namespace pyslash
