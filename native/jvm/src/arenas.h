// The arenas that this JVM has mapped, by the handles that Java knows them by.
#pragma once

#include "handles.h"
#include "pyslash/arena.h"

namespace pyslash::jvm {

Handles<Arena>& arenas();

}  // namespace pyslash::jvm
