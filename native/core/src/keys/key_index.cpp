#include "pyslash/key_index.h"

#include <vector>

#include "pyslash/error.h"
#include "pyslash/group_keys.h"
#include "pyslash/key_table.h"
#include "update/batch_keys.h"
#include "update/columns.h"

namespace pyslash {

struct KeyIndex::Impl {
  explicit Impl(const Plan& plan) : batch_keys(plan), keys(batch_keys.codec()) {}

  BatchKeys batch_keys;
  GroupKeys keys;  // a group a row, in order
  KeyTable table;
  ColumnReader reader;
  std::vector<uint32_t> groups;  // of a batch's rows
};

KeyIndex::KeyIndex(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)), impl_(std::make_unique<Impl>(*plan_)) {}
KeyIndex::~KeyIndex() = default;

void KeyIndex::add(std::span<const ColumnView> columns, size_t rows) {
  if (rows > INT32_MAX - rows_) throw Error(Status::invalid_input, "an index of more than 2^31 rows");
  impl_->reader.read(*plan_, columns, rows, [&](const Batch& batch) {
    impl_->groups.resize(batch.rows);
    impl_->table.find_or_insert(impl_->batch_keys.encode(batch), batch.rows, impl_->keys, impl_->groups.data());
    rows_ += batch.rows;
    if (impl_->keys.size() != rows_) throw Error(Status::invalid_input, "a key comes twice");
  });
}

void KeyIndex::find(std::span<const ColumnView> columns, size_t rows, std::span<int32_t> found) {
  if (found.size() != rows) {
    throw Error(Status::invalid_input, "room for " + std::to_string(found.size()) + " findings, but there are " +
                                           std::to_string(rows) + " rows");
  }
  int32_t* next = found.data();
  impl_->reader.read(*plan_, columns, rows, [&](const Batch& batch) {
    impl_->groups.resize(batch.rows);
    impl_->table.find(impl_->batch_keys.encode(batch), batch.rows, impl_->keys, impl_->groups.data());
    for (const uint32_t group : impl_->groups) *next++ = static_cast<int32_t>(group);  // `absent` is -1
  });
}

}  // namespace pyslash
