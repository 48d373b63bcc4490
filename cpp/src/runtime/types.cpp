// The table of data types: name and bytes of each, and counts of elements and bytes that do not
// overflow.
#include <traingraph/types.h>

#include "ir/extents.h"

namespace traingraph {
namespace {

struct Row {
  DataType type;
  const char* name;
  std::size_t bytes;
};

constexpr Row kTypes[] = {
    {DataType::kFloat32, "float32", 4},   {DataType::kFloat16, "float16", 2},
    {DataType::kBoolean, "bool", 1},      {DataType::kInt64, "int64", 8},
    {DataType::kInt32, "int32", 4},       {DataType::kInt8, "int8", 1},
    {DataType::kUInt8, "uint8", 1},       {DataType::kFloat64, "float64", 8},
    {DataType::kBFloat16, "bfloat16", 2},
};

const Row* row(DataType type) {
  for (const Row& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::size_t element_bytes(DataType type) {
  const Row* found = row(type);
  return found != nullptr ? found->bytes : 0;
}

const char* name(DataType type) {
  const Row* found = row(type);
  return found != nullptr ? found->name : "invalid";
}

const char* name(Precision precision) {
  constexpr const char* kNames[] = {"float32", "tf32", "mixed_bfloat16", "mixed_float16"};
  return kNames[static_cast<std::size_t>(precision)];
}

bool is_floating_point(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBFloat16;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count = ir::product(count, extent);
  return count;
}

std::int64_t byte_count(const Shape& shape, DataType type) {
  return ir::product(element_count(shape), static_cast<std::int64_t>(element_bytes(type)));
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace traingraph
