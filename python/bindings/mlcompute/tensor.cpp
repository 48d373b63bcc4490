// Binds MLCTensor, MLCTensorParameter and optimizer device data: properties, copies to the host,
// and the array protocols.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/dlpack.h"
#include "mlcompute/tensor_forms.h"

namespace traingraph::python {
namespace {

// The host copy in the tensor's own shape and type, whatever bytes it was made over.
py::object host_copy(Tensor& self, bool writable) {
  struct Held {
    TensorPtr tensor;
    std::shared_ptr<const void> memory;
  };
  TensorData data = self.data();
  if (data.bytes == nullptr) {
    return py::none();
  }
  data.data_type = self.descriptor().data_type;
  data.shape = self.descriptor().shape;
  data.owner = std::make_shared<const Held>(Held{self.shared_from_this(), data.owner});
  return view_of(data, writable);
}

py::object required_host_copy(Tensor& self, bool writable) {
  py::object array = host_copy(self, writable);
  if (array.is_none()) {
    throw InvalidArgument("[MLCTensor] expected a tensor with host data but '" + self.label() +
                          "' has none; call synchronize_data() or pass data");
  }
  return array;
}

py::typing::List<py::object> optimizer_arrays(const Tensor& self) {
  std::vector<TensorData> copies;
  {
    const ReleasedGil released;
    copies = self.optimizer_data();
  }
  py::typing::List<py::object> arrays;
  for (const TensorData& data : copies) {
    arrays.append(view_of(data, true));
  }
  return arrays;
}

py::typing::List<OptimizerDeviceData> optimizer_twins(Tensor& self) {
  py::typing::List<OptimizerDeviceData> twins;
  std::size_t count = 0;
  if (self.device()) {
    const ReleasedGil released;
    count = self.optimizer_data().size();
  }
  for (std::size_t slot = 0; slot < count; ++slot) {
    twins.append(OptimizerDeviceData{self.shared_from_this(), slot});
  }
  return twins;
}

bool copy_from_device(Tensor& self, const Arguments& arguments) {
  const char* const subject = "MLCTensor.copy_data_from_device_memory";
  const TensorData target = raw_data(arguments["to_bytes"], {subject, "to_bytes", {}});
  const std::size_t length = arguments.optional<std::size_t>("length").value_or(target.length);
  if (!target.writable || length > target.length) {
    throw InvalidArgument(std::string("[") + subject + "] expected " + std::to_string(length) +
                          " writable bytes but got " + std::to_string(target.length) +
                          (target.writable ? "" : " read-only ones"));
  }
  arguments.get<bool>("synchronize_with_device");
  const ReleasedGil released;
  self.copy_to(target.bytes, length);
  return true;
}

bool bind_and_write_tensor(Tensor& self, const Arguments& arguments) {
  if (!arguments["to"].is_none()) {
    to_device(arguments["to"]);
  }
  TensorData data = parameter_data(arguments["data"], self.descriptor().data_type,
                                   {"MLCTensor.bind_and_write_data", "tensor", self.label()});
  const ReleasedGil released;
  self.set_data(std::move(data));
  return true;
}

py::object as_array(Tensor& self, const Arguments& arguments) {
  const py::object dtype = arguments["dtype"];
  const py::object copy = arguments["copy"];
  const py::object array = required_host_copy(self, false);
  if (dtype.is_none() && !(py::isinstance<py::bool_>(copy) && py::cast<bool>(copy))) {
    return array;
  }
  return py::module_::import("numpy").attr("array")(array, py::arg("dtype") = dtype,
                                                    py::arg("copy") = copy);
}

void bind_members(BoundClass<Tensor, TensorPtr>& cls) {
  cls.def_property_readonly("tensor_id", &Tensor::id, "Counts the process's tensors from 0.");
  cls.def_property_readonly("descriptor", &Tensor::descriptor, "Shape and element type.");
  cls.def_property("label", &Tensor::label, &Tensor::set_label,
                   "A name for messages and dictionaries, at first data and the tensor_id.");
  cls.def_property_readonly("device", &Tensor::device, "Where it was last compiled for.");
  cls.def_property_readonly(
      "data", [](Tensor& self) { return host_copy(self, false); },
      "A read-only view of the host copy; None without one. bind_and_write_data changes it.");
  cls.def_property_readonly("optimizer_data", optimizer_arrays,
                            "Copies of what an optimizer keeps, one array per buffer.");
  cls.def_property_readonly("optimizer_device_data", optimizer_twins,
                            "The device's side of optimizer_data.");
  cls.def_property_readonly("has_valid_numerics", &Tensor::has_valid_numerics,
                            "Whether the host copy is free of NaN and infinity.");
  cls.def_released(
      "synchronize_data", [](Tensor& self) { return self.synchronize_data(), true; },
      "Copies the newest value to the host copy.");
  cls.def_released(
      "device_data", &Tensor::device_data,
      "A read-only view of the newest value where it lies on its device, for DLPack. It shows "
      "this value until the next execution. Errors: ValueError when the value is not readable, "
      "NotImplementedError when it is not row-major there.");
  cls.def_released(
      "synchronize_optimizer_data",
      [](Tensor& self) { return self.synchronize_optimizer_data(), true; },
      "Copies what the optimizer keeps to the host.");
  def_method(cls, "copy_data_from_device_memory", "bool",
             {"to_bytes: Buffer, length: int | None = None, "
              "synchronize_with_device: bool = False"},
             "Copies the newest value into the caller's memory. Errors: ValueError when the value "
             "is not readable or the memory too small.",
             copy_from_device);
  def_method(cls, "bind_and_write_data", "bool",
             {"data: ArrayLike | MLCTensorData, to: MLCDevice | str | None = None"},
             "Replaces the host copy; graphs over this parameter read it at their next execution.",
             bind_and_write_tensor);
  def_method(cls, "bind_optimizer_data", "bool",
             {"data: Sequence[ArrayLike | MLCTensorData], "
              "device_data: Sequence[MLCTensorOptimizerDeviceData] | None = None"},
             "Replaces what an optimizer keeps for this parameter, one array per buffer.",
             [](Tensor& self, const Arguments& arguments) {
               bind_optimizer_data(self, arguments);
               return true;
             });
}

void bind_protocols(BoundClass<Tensor, TensorPtr>& cls) {
  def_copy(cls, [](const Tensor& self) { return self.copy(); });
  def_identity(cls);
  def_method(cls, "__array__", "numpy.ndarray",
             {"dtype: DTypeLike | None = None, copy: bool | None = None"},
             "A read-only view of the host copy, or a copy.", as_array,
             Signature::Kind::kPairMethod);
  cls.def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(1, 0); });
  cls.def("__repr__", [](const Tensor& self) {
    return "<MLCTensor " + std::to_string(self.id()) + " '" + self.label() + "' " +
           to_string(self.descriptor().shape) + " " + name(self.descriptor().data_type) + ">";
  });
  def_method(
      cls, "__dlpack__", "Any", {kDlpackForm}, "The host copy as a DLPack capsule.",
      [](Tensor& self, const Arguments& arguments) {
        return required_host_copy(self, self.data().writable).attr("__dlpack__")(**arguments.all());
      },
      Signature::Kind::kKeywordMethod);
}

void bind_parameter(py::module_& module) {
  auto cls =
      BoundClass<TensorParameter>(module, "MLCTensorParameter", "A tensor that training updates.");
  def_init(cls,
           {"tensor: MLCTensor, optimizer_data: Sequence[ArrayLike | "
            "MLCTensorData] | None = None"},
           "Optimizer data is attached to the tensor.", [](const Arguments& arguments) {
             TensorParameter parameter{arguments.get<TensorPtr>("tensor"), true};
             if (!arguments["optimizer_data"].is_none()) {
               bind_optimizer_data(*parameter.tensor, arguments, "optimizer_data");
             }
             return parameter;
           });
  cls.def_readonly("tensor", &TensorParameter::tensor, "The tensor.");
  cls.def_property(
      "is_updatable",
      [](const TensorParameter& self) { return static_cast<bool>(self.is_updatable); },
      [](TensorParameter& self, bool updatable) { self.is_updatable = updatable; },
      "Whether updates change the tensor, from the next execution on. A change gives up a step "
      "whose micro-batches are summed, even if it is taken back. A graph that took "
      "this by set_training_tensor_parameters has a copy.");
  cls.def("__repr__", [](const TensorParameter& self) {
    return "<MLCTensorParameter '" + self.tensor->label() + "'" +
           (self.is_updatable ? ">" : ", frozen>");
  });
}

}  // namespace

void bind_tensor(py::module_& module) {
  auto twin = BoundClass<OptimizerDeviceData>(module, "MLCTensorOptimizerDeviceData",
                                              "The device's side of one optimizer buffer.");
  def_copy(twin, [](const OptimizerDeviceData& self) { return self; });
  twin.def("__repr__", [](const OptimizerDeviceData& self) {
    return "<MLCTensorOptimizerDeviceData " + std::to_string(self.slot) + " of '" +
           self.tensor->label() + "'>";
  });
  auto cls = BoundClass<Tensor, TensorPtr>(
      module, "MLCTensor", "The handle of a tensor: shape, element type, label, maybe data.");
  bind_members(cls);
  bind_protocols(cls);
  bind_tensor_forms(cls);
  bind_quantization(cls);
  bind_parameter(module);
}

}  // namespace traingraph::python
