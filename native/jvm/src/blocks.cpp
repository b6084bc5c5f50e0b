#include "blocks.h"

#include "arenas.h"
#include "boundary.h"

namespace pyslash::jvm {

Blocks::Blocks(JNIEnv* env, jobjectArray heads, jlongArray handles) {
  const std::vector<int64_t> of = longs_of(env, handles, "the arenas");
  const auto count = static_cast<jsize>(of.size());
  if (heads == nullptr || env->GetArrayLength(heads) != count) {
    throw Error(Status::invalid_input, "there must be an arena for each head");
  }
  heads_.reserve(of.size());
  for (jsize i = 0; i < count; ++i) {
    const auto raw = static_cast<jbyteArray>(env->GetObjectArrayElement(heads, i));
    if (env->ExceptionCheck()) throw JavaExceptionPending{};
    const Head& head = heads_.emplace_back(read_head(bytes_of(env, raw, "head")));
    env->DeleteLocalRef(raw);
    const auto& arena = arenas_.emplace_back(arenas().get(of[static_cast<size_t>(i)]));
    blocks_.push_back({&head, block_in(*arena, head)});
  }
}

}  // namespace pyslash::jvm
