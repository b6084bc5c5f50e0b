#include "pyslash/key_index.h"

#include <vector>

#include "pyslash/error.h"
#include "pyslash/group_keys.h"
#include "pyslash/key_codec.h"
#include "pyslash/key_table.h"
#include "update/columns.h"

namespace pyslash {

class KeyIndex::Impl {
 public:
  explicit Impl(const Plan& plan) : codec_(plan), keys_(codec_) {}

  // The keys of a batch; `groups_` has room for what is found.
  const EncodedKeys& encode(const Plan& plan, const Batch& batch) {
    columns_.clear();
    for (const int key : plan.keys()) columns_.push_back(batch.columns[static_cast<size_t>(key)]);
    codec_.encode(columns_, batch.rows, encoded_);
    groups_.resize(batch.rows);
    return encoded_;
  }

  KeyCodec codec_;
  GroupKeys keys_;  // a group a row, in order
  KeyTable table_;
  ColumnReader reader_;
  std::vector<uint32_t> groups_;

 private:
  std::vector<BatchColumn> columns_;
  EncodedKeys encoded_;
};

KeyIndex::KeyIndex(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)), impl_(std::make_unique<Impl>(*plan_)) {}
KeyIndex::~KeyIndex() = default;

void KeyIndex::add(std::span<const ColumnView> columns, size_t rows) {
  if (rows > INT32_MAX - rows_) throw Error(Status::invalid_input, "an index of more than 2^31 rows");
  impl_->reader_.read(*plan_, columns, rows, [&](const Batch& batch) {
    const EncodedKeys& encoded = impl_->encode(*plan_, batch);
    impl_->table_.find_or_insert(encoded, batch.rows, impl_->keys_, impl_->groups_.data());
    rows_ += batch.rows;
    if (impl_->keys_.size() != rows_) throw Error(Status::invalid_input, "a key comes twice");
  });
}

void KeyIndex::find(std::span<const ColumnView> columns, size_t rows, std::span<int32_t> found) {
  if (found.size() != rows) {
    throw Error(Status::invalid_input, "room for " + std::to_string(found.size()) + " findings, but there are " +
                                           std::to_string(rows) + " rows");
  }
  int32_t* next = found.data();
  impl_->reader_.read(*plan_, columns, rows, [&](const Batch& batch) {
    const EncodedKeys& encoded = impl_->encode(*plan_, batch);
    impl_->table_.find(encoded, batch.rows, impl_->keys_, impl_->groups_.data());
    for (const uint32_t group : impl_->groups_) *next++ = static_cast<int32_t>(group);  // `absent` is -1
  });
}

}  // namespace pyslash
