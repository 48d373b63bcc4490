#include <pybind11/stl.h>

#include <array>

#include "runtime/philox.h"
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
}

}  // namespace traingraph::testing
