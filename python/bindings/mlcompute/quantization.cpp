// Binds quantized() and dequantized() of MLCTensor, with one scale and bias or with one per element
// along an axis.
#include "convert/data.h"
#include "mlcompute/tensor_forms.h"

namespace traingraph::python {
namespace {

// The numbers of an argument: one number, an array, or a tensor with data.
template <typename T>
std::vector<T> numbers(const Arguments& arguments, const char* name) {
  const py::object value = arguments[name];
  if (PyNumber_Check(value.ptr()) != 0 && !py::hasattr(value, "__len__")) {
    return {arguments.get<T>(name)};
  }
  constexpr DataType kType = std::is_floating_point_v<T> ? DataType::kFloat32 : DataType::kInt64;
  const Where where = arguments.where(name);
  const TensorData data = readable_data(value, kType, {where.subject.c_str(), "argument", name});
  if (data.data_type == DataType::kInvalid) {
    refuse(where, value);
  }
  const T* const first = static_cast<const T*>(data.bytes);
  return {first, first + element_count(data.shape)};
}

template <typename T>
T number(const Arguments& arguments, const char* name) {
  const std::vector<T> all = numbers<T>(arguments, name);
  if (all.size() != 1) {
    throw ShapeError("[" + arguments.where(name).subject + "] expected one number for " + name +
                     " without an axis but got " + std::to_string(all.size()));
  }
  return all.front();
}

}  // namespace

void bind_quantization(BoundClass<Tensor, TensorPtr>& cls) {
  const std::string one = "to: MLCDataType | DTypeLike, scale: float | ArrayLike | MLCTensor, ";
  const std::string whole = "int | ArrayLike | MLCTensor";
  // `call` takes the tensor, and one number each or one per element along an axis.
  const auto define = [&](const char* name, const char* offset, const char* doc, auto call) {
    def_method(cls, name, "MLCTensor",
               {one + offset + ": " + whole, one + "bias: " + whole + ", axis: int"}, doc,
               [offset, call](Tensor& self, const Arguments& arguments) {
                 const auto target = arguments.get<DataType>("to");
                 if (arguments.given("axis")) {
                   return call(self, target, numbers<float>(arguments, "scale"),
                               numbers<std::int64_t>(arguments, "bias"),
                               arguments.get<std::int64_t>("axis"));
                 }
                 return call(self, target, number<float>(arguments, "scale"),
                             number<std::int64_t>(arguments, offset));
               });
  };
  define("quantized", "bias",
         "A new tensor of round(x / scale) + bias, half to even, clamped. Types: float32 or "
         "float64 to int8, uint8 or int32. Shapes: one scale and bias, or with an axis one per "
         "element along it. Errors: ValueError for NaN or a scale that is not above 0, "
         "TypeError for other types.",
         [](const Tensor& self, const auto&... by) { return self.quantized(by...); });
  define("dequantized", "zero_point",
         "A new tensor of (q - zero_point) * scale. Types: int8, uint8 or int32 to float32. "
         "Shapes: one scale and zero point, or with an axis one per element along it. Errors: "
         "ValueError for a scale that is not above 0, TypeError for other types.",
         [](const Tensor& self, const auto&... by) { return self.dequantized(by...); });
}

}  // namespace traingraph::python
