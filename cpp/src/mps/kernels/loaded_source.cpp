// Compares sizes and types of what data sources hand over, and writes numbers of channels.
#include "mps/kernels/loaded_source.h"

#include <vector>

namespace traingraph::mps {

void check_numbers(const SourceNumbers& numbers, const Shape& expected, DataType type,
                   const std::string& who, const char* what) {
  const std::string begin = "[" + who + "] expected ";
  const std::string array = std::string(what) + " " + to_string(expected);
  if (numbers.data == nullptr) throw InvalidArgument(begin + array + " but got none");
  if (numbers.data_type != type) {
    throw DataTypeError(begin + name(type) + " " + array + " but got " + name(numbers.data_type));
  }
  const std::int64_t count = element_count(expected);
  if (numbers.count == static_cast<std::size_t>(count)) return;
  throw ShapeError(begin + std::to_string(count) + " elements of " + array + " but got " +
                   std::to_string(numbers.count));
}

void write_all(std::span<const ChannelNumbers> arrays, const std::string& who) {
  for (const ChannelNumbers& array : arrays) {
    if (array.numbers.data == nullptr) continue;
    check_numbers(array.numbers, array.to.shape, DataType::kFloat32, who, array.what);
  }
  for (const ChannelNumbers& array : arrays) {
    Storage& to = array.to;
    if (array.numbers.data != nullptr) {
      write_storage(to, 0, array.numbers.data, to.bytes());
      continue;
    }
    const std::vector<float> same(to.bytes() / sizeof(float), array.otherwise);
    write_storage(to, 0, same.data(), to.bytes());
  }
}

}  // namespace traingraph::mps
