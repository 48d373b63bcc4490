// The core's enumerations as Python's own IntEnum and IntFlag classes. An argument may also be a
// member's name as text, or its raw value.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include <traingraph/traingraph.h>

namespace traingraph::python {

template <typename E>
struct EnumName;

// C++'s enumeration, and its class in Python.
#define TRAINGRAPH_ENUM(type, name)                                   \
  template <>                                                         \
  struct EnumName<type> {                                             \
    static constexpr auto value = pybind11::detail::const_name(name); \
    static constexpr const char* text = name;                         \
  }
TRAINGRAPH_ENUM(ActivationType, "MLCActivationType");
TRAINGRAPH_ENUM(ArithmeticOperation, "MLCArithmeticOperation");
TRAINGRAPH_ENUM(ComparisonOperation, "MLCComparisonOperation");
TRAINGRAPH_ENUM(CompilationOptions, "MLCGraphCompilationOptions");
TRAINGRAPH_ENUM(ConvolutionType, "MLCConvolutionType");
TRAINGRAPH_ENUM(DataType, "MLCDataType");
TRAINGRAPH_ENUM(DeviceType, "MLCDeviceType");
TRAINGRAPH_ENUM(ExecutionOptions, "MLCExecutionOptions");
TRAINGRAPH_ENUM(GradientClippingType, "MLCGradientClippingType");
TRAINGRAPH_ENUM(LossType, "MLCLossType");
TRAINGRAPH_ENUM(LSTMResultMode, "MLCLSTMResultMode");
TRAINGRAPH_ENUM(PaddingPolicy, "MLCPaddingPolicy");
TRAINGRAPH_ENUM(PaddingType, "MLCPaddingType");
TRAINGRAPH_ENUM(PoolingType, "MLCPoolingType");
TRAINGRAPH_ENUM(Precision, "Precision");
TRAINGRAPH_ENUM(RandomInitializerType, "MLCRandomInitializerType");
TRAINGRAPH_ENUM(ReductionType, "MLCReductionType");
TRAINGRAPH_ENUM(RegularizationType, "MLCRegularizationType");
TRAINGRAPH_ENUM(SampleMode, "MLCSampleMode");
TRAINGRAPH_ENUM(SoftmaxOperation, "MLCSoftmaxOperation");

template <typename E>
concept BoundEnum = requires { EnumName<E>::text; };

// The name of a value's class, for messages, and that of a class, without its module.
std::string type_name(pybind11::handle value);
std::string class_name(PyObject* type);
// In lower case by ASCII alone: in some locales "I" is the upper case of another letter.
std::string lower_case(std::string_view text);
// The raw value of a member, its name or its number. TypeError or ValueError list the right ones.
long enum_value(const char* type, pybind11::handle value);
pybind11::object enum_member(const char* type, long value);
// The Python class; borrowed, kept for the life of the process.
pybind11::handle enum_class(const char* type);
// Members by their text: "FLOAT32".
bool enum_lookup(const char* type, const std::string& text, long& value);

void bind_enums(pybind11::module_& module);

}  // namespace traingraph::python

namespace pybind11::detail {

template <traingraph::python::BoundEnum E>
struct type_caster_enum_type_enabled<E, void> : std::false_type {};

template <traingraph::python::BoundEnum E>
class type_caster<E> {
 public:
  PYBIND11_TYPE_CASTER(E, traingraph::python::EnumName<E>::value);

  bool load(handle source, bool) {
    value = static_cast<E>(
        traingraph::python::enum_value(traingraph::python::EnumName<E>::text, source));
    return true;
  }
  static handle cast(E source, return_value_policy, handle) {
    return traingraph::python::enum_member(traingraph::python::EnumName<E>::text,
                                           static_cast<long>(source))
        .release();
  }
};

}  // namespace pybind11::detail
