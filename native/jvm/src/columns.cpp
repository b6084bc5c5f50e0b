#include "columns.h"

#include <vector>

#include "boundary.h"

namespace pyslash::jvm {
namespace {

jlong address_of(const Buffer& buffer) { return buffer.size() == 0 ? 0 : reinterpret_cast<jlong>(buffer.data()); }

}  // namespace

jlongArray addresses_of(JNIEnv* env, const RecordBatch& batch) {
  std::vector<jlong> numbers{static_cast<jlong>(batch.rows)};
  for (const ArrowColumn& column : batch.columns) {
    numbers.insert(numbers.end(), {static_cast<jlong>(column.nulls), address_of(column.validity),
                                   address_of(column.values), address_of(column.offsets)});
  }
  jlongArray array = env->NewLongArray(static_cast<jsize>(numbers.size()));
  if (!array) throw JavaExceptionPending{};
  env->SetLongArrayRegion(array, 0, static_cast<jsize>(numbers.size()), numbers.data());
  return array;
}

}  // namespace pyslash::jvm
