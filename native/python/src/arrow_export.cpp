#include "arrow_export.h"

#include <array>
#include <string>
#include <vector>

#include "arrow_abi.h"
#include "arrow_format.h"

namespace pyslash::python {
namespace {

// What a schema or array of ours owns. A consumer may move any child out of its parent and release it later than the
// parent, so each node owns its own.
struct SchemaNode {
  std::string format;
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
};

struct ArrayNode {
  std::shared_ptr<const RecordBatch> batch;
  std::array<const void*, 3> buffers{};
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
};

template <typename Node, typename Struct>
void release_node(Struct* that) {
  auto* node = static_cast<Node*>(that->private_data);
  for (Struct& child : node->children) {
    if (child.release != nullptr) child.release(&child);  // null: it has been moved out
  }
  delete node;
  that->release = nullptr;
}

template <typename Node, typename Struct>
void adopt(Struct& that, std::unique_ptr<Node> node) {
  for (auto& child : node->children) node->pointers.push_back(&child);
  that.n_children = static_cast<int64_t>(node->children.size());
  that.children = node->pointers.data();
  that.release = release_node<Node, Struct>;
  that.private_data = node.release();
}

template <typename Struct>
nb::capsule capsule_of(std::unique_ptr<Struct> that, const char* name) {
  Struct* raw = that.release();
  return nb::capsule(raw, name, [](void* pointer) noexcept {
    auto* owned = static_cast<Struct*>(pointer);
    if (owned->release != nullptr) owned->release(owned);  // null: a consumer has taken it
    delete owned;
  });
}

void make_schema(ArrowSchema& schema, std::string format, std::string name, bool nullable,
                 std::vector<ArrowSchema> children) {
  auto node = std::make_unique<SchemaNode>();
  node->format = std::move(format);
  node->name = std::move(name);
  node->children = std::move(children);
  schema.format = node->format.c_str();
  schema.name = node->name.c_str();
  schema.flags = nullable ? arrow_flag_nullable : 0;
  adopt(schema, std::move(node));
}

void make_column(ArrowArray& array, const std::shared_ptr<const RecordBatch>& batch, const ArrowColumn& column) {
  auto node = std::make_unique<ArrayNode>();
  node->batch = batch;
  const bool variable = column.type.is_variable();
  node->buffers[0] = column.nulls == 0 ? nullptr : column.validity.data();
  node->buffers[1] = variable ? column.offsets.data() : column.values.data();
  node->buffers[2] = variable ? column.values.data() : nullptr;
  array.length = static_cast<int64_t>(batch->rows);
  array.null_count = column.nulls;
  array.n_buffers = variable ? 3 : 2;
  array.buffers = node->buffers.data();
  adopt(array, std::move(node));
}

}  // namespace

nb::capsule schema_capsule(std::span<const ResultField> fields) {
  std::vector<ArrowSchema> children(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    make_schema(children[i], format_of(fields[i].type), fields[i].name, fields[i].nullable, {});
  }
  auto schema = std::make_unique<ArrowSchema>();
  make_schema(*schema, "+s", "", false, std::move(children));
  return capsule_of(std::move(schema), "arrow_schema");
}

nb::capsule array_capsule(const std::shared_ptr<const RecordBatch>& batch) {
  auto node = std::make_unique<ArrayNode>();
  node->children.resize(batch->columns.size());
  for (size_t i = 0; i < batch->columns.size(); ++i) make_column(node->children[i], batch, batch->columns[i]);
  auto array = std::make_unique<ArrowArray>();
  array->length = static_cast<int64_t>(batch->rows);
  array->n_buffers = 1;
  array->buffers = node->buffers.data();
  adopt(*array, std::move(node));
  return capsule_of(std::move(array), "arrow_array");
}

}  // namespace pyslash::python
