// Blocks that Java names by their heads, in the arenas that they lie in.
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
  // A handle of an arena for each head.
  Blocks(JNIEnv* env, jobjectArray heads, jlongArray arenas);
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  std::span<const MappedBlock> all() const { return blocks_; }

 private:
  std::vector<Head> heads_;
  std::vector<std::shared_ptr<Arena>> arenas_;  // stay mapped
  std::vector<MappedBlock> blocks_;
};

}  // namespace pyslash::jvm
