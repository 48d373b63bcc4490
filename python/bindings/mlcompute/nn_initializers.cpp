// What weights begin with: names, numbers and functions of Python's.
#include "mlcompute/nn_initializers.h"

#include "convert/convert.h"
#include "convert/data.h"
#include "convert/release.h"

namespace traingraph::python {

nn::Initializer initializer_of(const Arguments& given, const char* name) {
  const py::object value = given[name];
  if (value.is_none()) return {};
  if (PyUnicode_Check(value.ptr())) return to_text(value, given.where(name));
  if (PyFloat_Check(value.ptr()) || PyIndex_Check(value.ptr())) {
    return to_number(value, given.where(name));
  }
  if (PyCallable_Check(value.ptr()) == 0) refuse(given.where(name), value);
  return nn::Initializer::Function(
      [shared = share(value), where = given.where(name)](const Shape& shape) {
        const HeldGil held;
        const py::object values = shared_object(shared)(py::tuple(py::cast(shape)));
        const TensorData read =
            readable_data(values, DataType::kFloat32,
                          {where.subject.c_str(), "what the function gives as", where.name})
                .on_host();
        return TensorData::copy_of(read.bytes, read.length, read.data_type, read.shape);
      });
}

}  // namespace traingraph::python
