#include "backends/reference/call.h"
#include "runtime/numbers/philox.h"

namespace traingraph::reference {

// x, step, first row → y: 0 where the element is dropped, else x / (1 - rate). A mask counts the
// elements of the whole batch.
template <class T>
void dropout(const Call& call) {
  const auto& attributes = call.get<ir::DropoutAttributes>();
  const std::uint32_t threshold = philox::keep_threshold(attributes.rate);
  const T scale = static_cast<T>(1 / (1 - attributes.rate));
  const auto step = static_cast<std::uint64_t>(*call.in<std::int64_t>(1));
  const Shape& shape = call.out_shape(0);
  const std::int64_t count = element_count(shape);
  std::int64_t first = 0;
  if (call.inputs.size() > 2) first = *call.in<std::int64_t>(2) * (count / shape[0]);
  // Four neighbours share a block of words.
  philox::Block block{};
  for (std::int64_t e = 0; e < count; ++e) {
    const auto element = static_cast<std::uint64_t>(first + e);
    if (e == 0 || element % 4 == 0) block = philox::block_of(attributes.seed, step, element / 4);
    call.out<T>(0)[e] = block.word[element % 4] < threshold ? T(0) : call.in<T>(0)[e] * scale;
  }
}

template void dropout<float>(const Call&);
template void dropout<double>(const Call&);

}  // namespace traingraph::reference
