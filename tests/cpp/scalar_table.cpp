#include <cstring>

#include "ir/scalar.h"
#include "testing.h"

namespace traingraph::testing {

void bind_scalar_table(py::module_& module) {
  module.def(
      "scalar_table",
      [] {
        py::dict table;
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y)         \
  table[#name] = py::make_tuple(arity, std::strcmp(#gradient_x, "none") != 0, \
                                std::strcmp(#gradient_y, "none") != 0);
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
        return table;
      },
      "Per function: how many operands, whether x and y have a gradient.");
}

}  // namespace traingraph::testing
