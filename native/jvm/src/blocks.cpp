#include "blocks.h"

#include "arenas.h"
#include "boundary.h"

namespace pyslash::jvm {
namespace {

template <typename Result>
Result asked(JNIEnv* env, Result result) {
  if (env->ExceptionCheck()) throw JavaExceptionPending{};
  return result;
}

constexpr jlong not_readable = 0;  // in the place of an arena's handle

}  // namespace

Blocks::Blocks(JNIEnv* env, jobject source, bool all) {
  if (source == nullptr) throw Error(Status::invalid_input, "the source of the blocks is null");
  jclass type = env->GetObjectClass(source);
  jmethodID bring = asked(env, env->GetMethodID(type, "bring", "(Z)[J"));
  jmethodID get_heads = asked(env, env->GetMethodID(type, "heads", "()[[B"));
  const auto places = static_cast<jlongArray>(asked(env, env->CallObjectMethod(source, bring, jboolean{all})));
  const auto heads = static_cast<jobjectArray>(asked(env, env->CallObjectMethod(source, get_heads)));
  const std::vector<int64_t> at = longs_of(env, places, "the places of the blocks");
  if (heads == nullptr || at.size() != 2 * static_cast<size_t>(env->GetArrayLength(heads))) {
    throw Error(Status::invalid_input, "there must be an arena and a place for each head");
  }
  heads_.reserve(at.size() / 2);
  for (size_t i = 0; i < at.size() / 2; ++i) {
    const auto raw = static_cast<jbyteArray>(asked(env, env->GetObjectArrayElement(heads, static_cast<jsize>(i))));
    const Head& head = heads_.emplace_back(read_head(bytes_of(env, raw, "head")));
    env->DeleteLocalRef(raw);
    const jlong arena = at[2 * i];
    if (arena == not_readable) {
      blocks_.push_back({&head, {}});
    } else {
      const auto& mapped = arenas_.emplace_back(arenas().get(arena));
      blocks_.push_back({&head, block_in(*mapped, head, at[2 * i + 1])});
    }
  }
}

}  // namespace pyslash::jvm
