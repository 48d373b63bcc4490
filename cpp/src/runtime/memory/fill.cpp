#include "runtime/memory/fill.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <traingraph/errors.h>

#include "runtime/numbers/half.h"

namespace traingraph {
namespace {

template <class T>
void fill_with(void* memory, std::size_t bytes, double number) {
  std::fill_n(static_cast<T*>(memory), bytes / sizeof(T), static_cast<T>(number));
}

}  // namespace

void fill(void* memory, std::size_t bytes, DataType type, double number) {
  switch (type) {
    case DataType::kFloat32:
      return fill_with<float>(memory, bytes, number);
    case DataType::kFloat64:
      return fill_with<double>(memory, bytes, number);
    case DataType::kInt64:
      return fill_with<std::int64_t>(memory, bytes, number);
    case DataType::kInt32:
      return fill_with<std::int32_t>(memory, bytes, number);
    case DataType::kInt8:
      return fill_with<std::int8_t>(memory, bytes, number);
    case DataType::kUInt8:
      return fill_with<std::uint8_t>(memory, bytes, number);
    case DataType::kBoolean:
      return fill_with<std::uint8_t>(memory, bytes, number != 0 ? 1 : 0);
    case DataType::kFloat16:
      return fill_with<std::uint16_t>(memory, bytes, narrowed_float16(static_cast<float>(number)));
    case DataType::kBFloat16:
      return fill_with<std::uint16_t>(memory, bytes, narrowed_bfloat16(static_cast<float>(number)));
    default:
      throw Unsupported(std::string("[tensor] cannot fill data of type ") + name(type));
  }
}

}  // namespace traingraph
