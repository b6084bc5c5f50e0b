// The arenas that this JVM has mapped, by the handles that Java knows them by.
#pragma once

#include "handles.h"
#include "pyslash/arena.h"
#include "pyslash/block.h"

namespace pyslash::jvm {

Handles<Arena>& arenas();

// A block where it lies; Status::stale_incarnation if that is in another arena.
Bytes block_in(const Arena& arena, const Head& head);

}  // namespace pyslash::jvm
