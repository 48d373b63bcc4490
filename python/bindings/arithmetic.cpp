#include "bindings.h"
#include "signature.h"

namespace traingraph::python {
namespace {

void bind_matmul_descriptor(py::module_& module) {
  using Self = MatMulDescriptor;
  auto cls = BoundClass<Self>(module, "MLCMatMulDescriptor", "How a matrix product is formed.");
  def_init(cls, {"alpha: float = 1.0, transposes_x: bool = False, transposes_y: bool = False"},
           "alpha scales the product; each source may be transposed on its last two axes.",
           [](const Arguments& arguments) {
             return Self{arguments.get<float>("alpha"), arguments.get<bool>("transposes_x"),
                         arguments.get<bool>("transposes_y")};
           });
  cls.def_readonly("alpha", &Self::alpha, "The factor of the product.");
  cls.def_readonly("transposes_x", &Self::transposes_x, "Whether the first source is transposed.");
  cls.def_readonly("transposes_y", &Self::transposes_y, "Whether the second source is transposed.");
  def_copy(cls, [](const Self& self) { return self; });
  cls.def("__repr__", [](const Self& self) {
    return "<MLCMatMulDescriptor alpha=" + py::cast<std::string>(py::str(py::float_(self.alpha))) +
           (self.transposes_x ? ", x transposed" : "") +
           (self.transposes_y ? ", y transposed>" : ">");
  });
}

}  // namespace

void bind_arithmetic(py::module_& module) {
  auto arithmetic = BoundClass<Arithmetic, Layer, std::shared_ptr<Arithmetic>>(
      module, "MLCArithmeticLayer", "Combines sources element by element.");
  def_init(arithmetic, {"operation: MLCArithmeticOperation | str"},
           "Shapes: two sources broadcast as NumPy does. Gradient: summed over broadcast axes. "
           "Errors: NotImplementedError for an operation without a kernel.",
           [](const Arguments& arguments) {
             return std::make_shared<Arithmetic>(arguments.get<ArithmeticOperation>("operation"));
           });
  arithmetic.def_property_readonly("operation", &Arithmetic::operation, "The operation.");

  bind_matmul_descriptor(module);
  auto matmul = BoundClass<MatMul, Layer, std::shared_ptr<MatMul>>(
      module, "MLCMatMulLayer", "alpha * op(x) op(y) on the last two axes.");
  def_init(matmul, {"descriptor: MLCMatMulDescriptor"},
           "Shapes: (…, M, K) and (…, K, N) to (…, M, N); leading axes broadcast from the back. "
           "Gradient: reads both sources.",
           [](const Arguments& arguments) {
             return std::make_shared<MatMul>(arguments.get<MatMulDescriptor>("descriptor"));
           });
  matmul.def_property_readonly(
      "descriptor", [](const MatMul& self) { return self.descriptor(); },
      "How the product is formed.");
}

}  // namespace traingraph::python
