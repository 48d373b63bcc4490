#include <pybind11/stl.h>

#include <array>

#include <traingraph/tensor.h>

#include "runtime/numbers/fans.h"
#include "runtime/numbers/philox.h"
#include "testing.h"

namespace traingraph::testing {

void bind_random(py::module_& module) {
  module.def(
      "philox",
      [](std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
        const philox::Block block =
            philox::block({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
        return std::array<std::uint32_t, 4>{block.word[0], block.word[1], block.word[2],
                                            block.word[3]};
      },
      py::arg("counter"), py::arg("key"), "One block of Philox4x32-10.");
  module.def(
      "fans",
      [](const Shape& shape) {
        const Fans fans = fans_of(shape);
        return std::pair(fans.in, fans.out);
      },
      py::arg("shape"), "Fan in and fan out of weights of this shape.");
  module.def(
      "random_of_fans",
      [](const Shape& shape, std::int64_t fan_in, std::int64_t fan_out) {
        const TensorPtr tensor = Tensor::random(
            TensorDescriptor(shape), RandomInitializerType::kGlorotUniform, fan_in, fan_out);
        const auto* first = static_cast<const float*>(tensor->data().bytes);
        return std::vector<float>(first, first + element_count(shape));
      },
      py::arg("shape"), py::arg("fan_in"), py::arg("fan_out"), "Glorot's uniform numbers.");
}

}  // namespace traingraph::testing
