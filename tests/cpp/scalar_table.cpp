#include <cstring>

#include "backends/cpu/compiled_match.h"
#include "ir/activations.h"
#include "ir/scalar_gradient.h"
#include "ir/scalar_simplify.h"
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
  module.def(
      "activation_loops",
      [] {
        const auto is_compiled = [](const ir::ScalarList& list) {
          const cpu::OperandView dense = cpu::view_of({64}, {64}, {});
          const std::vector<cpu::OperandView> views(static_cast<std::size_t>(list.inputs), dense);
          return cpu::find_compiled(list, views).has_value();
        };
        py::dict table;
        for (const ir::ActivationRow& row : ir::kActivations) {
          const auto a = static_cast<double>(row.a), b = static_cast<double>(row.b);
          const ir::ScalarList list = row.list(a == 0 ? 1 : a, b == 0 ? 1 : b);
          if (list.code.size() == 1) continue;
          std::vector<int> kept;
          const ir::ScalarList gradient =
              ir::without_dead_code(ir::simplified(ir::differentiated(list, {1})), kept);
          table[row.name] = py::make_tuple(is_compiled(list), is_compiled(gradient));
        }
        return table;
      },
      "Per activation of several functions: whether its list and its gradient are compiled loops.");
}

}  // namespace traingraph::testing
