// The arenas that this JVM has mapped, by the handles that Java knows them by.
#pragma once

#include "handles.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"

namespace pyslash::jvm {

Handles<Arena>& arenas();

// Where a block is: at its own offset in the arena that it was written into, or at `place` in a landing.
inline constexpr int64_t in_its_arena = -1;

// Its bytes; Status::stale_incarnation if its arena is another one.
Bytes block_in(const Arena& arena, const Head& head, int64_t place);

}  // namespace pyslash::jvm
