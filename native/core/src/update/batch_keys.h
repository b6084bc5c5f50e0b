// The keys of batches of a plan's rows, one batch after the other.
#pragma once

#include <vector>

#include "pyslash/key_codec.h"
#include "pyslash/plan.h"
#include "update/batch.h"

namespace pyslash {

class BatchKeys {
 public:
  explicit BatchKeys(const Plan& plan) : codec_(plan) {
    for (const int key : plan.keys()) columns_.push_back(static_cast<size_t>(key));
  }

  const KeyCodec& codec() const { return codec_; }
  // Of the batch's rows; they stay until the next call.
  const EncodedKeys& encode(const Batch& batch) {
    keys_.clear();
    for (const size_t column : columns_) keys_.push_back(batch.columns[column]);
    codec_.encode(keys_, batch.rows, encoded_);
    return encoded_;
  }
  // Those of the last batch.
  const EncodedKeys& encoded() const { return encoded_; }

 private:
  KeyCodec codec_;
  std::vector<size_t> columns_;
  std::vector<BatchColumn> keys_;
  EncodedKeys encoded_;
};

}  // namespace pyslash
