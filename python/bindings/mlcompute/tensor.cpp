// Binds tensors, and adds the array protocols.
#include "bindings.h"
#include "classes/described_class.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/dlpack.h"
#include "convert/numpy_arrays.h"

namespace traingraph::python {
namespace {

py::object host_copy(Tensor& self, bool writable) {
  py::object array = view_of(self.host_data(), writable);
  if (array.is_none()) {
    throw InvalidArgument("[MLCTensor] expected a tensor with host data but '" + self.label() +
                          "' has none; call synchronize_data() or pass data");
  }
  return array;
}

py::object as_array(Tensor& self, const Arguments& arguments) {
  const py::object dtype = arguments["dtype"];
  const py::object copy = arguments["copy"];
  const bool is_copy = !copy.is_none() && arguments.get<bool>("copy");
  const py::object array = host_copy(self, false);
  if (dtype.is_none() && !is_copy) return array;
  return py::module_::import("numpy").attr("array")(array, py::arg("dtype") = dtype,
                                                    py::arg("copy") = copy);
}

py::object as_capsule(Tensor& self, const Arguments& a) {
  const py::object copy = a["copy"];
  const bool is_copy = !copy.is_none() && to_bool(copy, {"MLCTensor", "copy", "bool | None"});
  const bool writable = self.data().writable;
  py::object array = host_copy(self, writable);
  TensorData data = self.host_data();
  data.writable = writable;
  if (is_copy) {
    array = array.attr("copy")();
    data = typed(array, data.data_type);
  }
  py::object capsule = dlpack_capsule(data, "MLCTensor",
                                      {a["stream"], a["max_version"], a["dl_device"], py::none()});
  if (!data.writable && PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    throw py::buffer_error(
        "[MLCTensor] expected a max_version of at least (1, 0), because the memory is read-only");
  }
  return capsule;
}

}  // namespace

void bind_tensor(py::module_& module) {
  bind_described(module, TensorDescriptor::class_description(), ownership<void>());
  bind_described(module, OptimizerDeviceData::class_description(), ownership<void>());
  bind_described(module, Tensor::class_description(), ownership<Tensor>());
  bind_described(module, TensorParameter::class_description(), ownership<void>());
  auto cls = described<Tensor>(module, "MLCTensor");
  def_method(cls, "__array__", "numpy.ndarray",
             {"dtype: DTypeLike | None = None, copy: bool | None = None"},
             "A read-only view of the host copy, or a copy.", as_array,
             Signature::Kind::kPairMethod);
  cls.def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(1, 0); });
  def_method(cls, "__dlpack__", "Any", {kDlpackForm}, "The host copy as a DLPack capsule.",
             as_capsule, Signature::Kind::kKeywordMethod);
}

}  // namespace traingraph::python
