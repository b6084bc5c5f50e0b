// A batch of rows as Java reads it: where its columns are.
#pragma once

#include <jni.h>

#include "pyslash/record_batch.h"

namespace pyslash::jvm {

// The number of rows, then for each column: nulls, and the addresses of validity, values and offsets (0: there is
// none).
jlongArray addresses_of(JNIEnv* env, const RecordBatch& batch);

}  // namespace pyslash::jvm
