// Blocks that Java names by their heads, where it has made them readable.
#pragma once

#include <jni.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pyslash/arena.h"
#include "pyslash/block.h"
#include "pyslash/home.h"

namespace pyslash::jvm {

class Blocks {
 public:
  // Has `source` (io.pyslash.core.BlockSource) make all blocks readable, or those of an epoch; others have no bytes.
  Blocks(JNIEnv* env, jobject source, bool all);
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  std::span<const MappedBlock> all() const { return blocks_; }

 private:
  std::vector<Head> heads_;
  std::vector<std::shared_ptr<Arena>> arenas_;  // stay mapped
  std::vector<MappedBlock> blocks_;
};

}  // namespace pyslash::jvm
