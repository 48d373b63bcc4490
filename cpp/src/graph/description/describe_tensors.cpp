// Tensors, their data and parameters.
#include <traingraph/describe.h>
#include <traingraph/device.h>
#include <traingraph/errors.h>

#include "graph/description/tensor_forms.h"

namespace traingraph {
namespace {

std::optional<HostArray> host_copy(Tensor& self) {
  TensorData data = self.host_data();
  if (data.bytes == nullptr) return std::nullopt;
  return HostArray{std::move(data), false};
}

std::vector<HostArray> optimizer_arrays(const Tensor& self) {
  std::vector<HostArray> arrays;
  for (TensorData& data : self.optimizer_data()) arrays.push_back({std::move(data)});
  return arrays;
}

Twins optimizer_twins(Tensor& self) {
  const std::size_t count = self.device() ? self.optimizer_data().size() : 0;
  Twins twins;
  for (std::size_t slot = 0; slot < count; ++slot) twins.push_back({self.shared_from_this(), slot});
  return twins;
}

using Scales = Numbers<float>;
using Offsets = Numbers<std::int64_t>;

std::vector<std::vector<Argument>> quantization_forms(const char* offset, const char* text) {
  const auto to = argument<DataType>("to", "The type of the new elements.");
  const auto scale = argument<Scales>("scale", "The size of one quantization step; above 0.");
  return {{to, scale, argument<Offsets>(offset, text)},
          {to, scale, argument<Offsets>("bias", "The quantized value of 0."),
           argument<std::int64_t>("axis", "Along which there is one of each per element.")}};
}

template <class T>
T only(const Given& given, const char* function, const char* name) {
  const auto numbers = given.get<Numbers<T>>(name).values;
  if (numbers.size() == 1) return numbers.front();
  throw ShapeError("[MLCTensor." + std::string(function) + "] expected one number for " + name +
                   " without an axis but got " + std::to_string(numbers.size()));
}

// `call` takes the tensor, and one number each or one per element along an axis.
template <class Call>
auto by_numbers(const char* function, const char* offset, Call call) {
  return [=](const Tensor& self, const Given& given) -> TensorPtr {
    const auto to = given.get<DataType>("to");
    if (given.find("axis") == nullptr) {
      return call(self, to, only<float>(given, function, "scale"),
                  only<std::int64_t>(given, function, offset));
    }
    return call(self, to, given.get<Scales>("scale").values, given.get<Offsets>("bias").values,
                given.get<std::int64_t>("axis"));
  };
}

void copy_from_device(const Tensor& self, const RawBytes& to, std::optional<std::size_t> length,
                      bool) {
  const std::size_t count = length.value_or(to.data.length);
  if (!to.data.writable || count > to.data.length) {
    throw InvalidArgument("[MLCTensor.copy_data_from_device_memory] expected " +
                          std::to_string(count) + " writable bytes but got " +
                          std::to_string(to.data.length) +
                          (to.data.writable ? "" : " read-only ones"));
  }
  self.copy_to(to.data.bytes, count);
}

void describe_data(Describing<Tensor, Tensor>& tensor) {
  tensor
      .property("data", host_copy,
                "A read-only view of the host copy; None without one. bind_and_write_data changes "
                "it.")
      .property("optimizer_data", optimizer_arrays,
                "Copies of what an optimizer keeps, one array per buffer.")
      .may_wait()
      .property("optimizer_device_data", optimizer_twins, "The device's side of optimizer_data.")
      .may_wait()
      .property("has_valid_numerics", &Tensor::has_valid_numerics,
                "Whether the host copy is free of NaN and infinity.")
      .action("synchronize_data", &Tensor::synchronize_data,
              "Copies the newest value to the host copy.")
      .may_wait()
      .function("device_data", &Tensor::device_data,
                "A read-only view of the newest value where it lies on its device, for DLPack. It "
                "shows this value until the next execution. Errors: ValueError when the value is "
                "not readable, NotImplementedError when it is not row-major there.")
      .may_wait()
      .action("synchronize_optimizer_data", &Tensor::synchronize_optimizer_data,
              "Copies what the optimizer keeps to the host.")
      .may_wait()
      .action("copy_data_from_device_memory", copy_from_device,
              "Copies the newest value into the caller's memory. Errors: ValueError when the value "
              "is not readable or the memory too small.",
              {{"to_bytes", "Memory that is written."},
               {"length", "Units: bytes; None: all of them.", std::any()},
               {"synchronize_with_device", "Has no effect: it always waits for the value.", false}})
      .may_wait()
      .action("bind_and_write_data",
              [](Tensor& self, const DataToShare& data, const std::optional<Device>&) {
                self.set_data(data.read(self.descriptor().data_type, "tensor", self.label()));
              },
              "Replaces the host copy; graphs over this parameter read it at their next execution.",
              {{"data", "An array, or memory of the caller's."},
               {"to", "The device that reads it next; has no effect.", std::any()}})
      .may_wait()
      .action("bind_optimizer_data", bind_optimizer_data,
              "Replaces what an optimizer keeps for this parameter.",
              {{"data", "One array per buffer."},
               {"device_data", "As many as data, which they follow by themselves.", std::any()}})
      .may_wait();
}

void describe_quantization(Describing<Tensor, Tensor>& tensor) {
  tensor
      .function_of_forms(
          "quantized",
          "A new tensor of round(x / scale) + bias, half to even, clamped. Types: float32 or "
          "float64 to int8, uint8 or int32. Shapes: one scale and bias, or with an axis one per "
          "element along it. Errors: ValueError for NaN or a scale that is not above 0, TypeError "
          "for other types.",
          quantization_forms("bias", "The quantized value of 0."),
          by_numbers("quantized", "bias",
                     [](const Tensor& self, const auto&... by) { return self.quantized(by...); }))
      .function_of_forms(
          "dequantized",
          "A new tensor of (q - zero_point) * scale. Types: int8, uint8 or int32 to float32. "
          "Shapes: one scale and zero point, or with an axis one per element along it. Errors: "
          "ValueError for a scale that is not above 0, TypeError for other types.",
          quantization_forms("zero_point", "The quantized value of 0."),
          by_numbers("dequantized", "zero_point", [](const Tensor& self, const auto&... by) {
            return self.dequantized(by...);
          }));
}

constexpr const char* kBytes = "bytes_no_copy";
constexpr const char* kImmutable = "immutable_bytes_no_copy";

TensorData memory_of(const Given& given) {
  const bool immutable = given.find(kImmutable) != nullptr;
  const auto memory = given.get<MemoryInPlace>(immutable ? kImmutable : kBytes);
  TensorData data = memory.data;
  if (!immutable && !data.writable) {
    throw InvalidArgument(
        "[MLCTensorData] expected writable memory for bytes_no_copy but got read-only memory; use "
        "immutable_bytes_no_copy");
  }
  data.writable = !immutable;
  const std::size_t length = given.get_optional<std::size_t>("length").value_or(data.length);
  if (length > data.length) {
    throw InvalidArgument("[MLCTensorData] expected length of at most " +
                          std::to_string(data.length) + " bytes but got " + std::to_string(length));
  }
  data.length = length;
  if (given.find("deallocator") != nullptr) {
    data.owner = given.get<Deallocator>("deallocator").keep(memory, length);
  }
  return data;
}

}  // namespace

// The device's side follows the data by itself; what is named must be there.
void bind_optimizer_data(Tensor& tensor, const DataList& given, const std::optional<Twins>& twins) {
  std::vector<TensorData> data;
  for (const DataToRead& one : given) {
    data.push_back(one.read(tensor.descriptor().data_type, "optimizer data of", tensor.label()));
  }
  if (twins && twins->size() != data.size()) {
    throw InvalidArgument("[MLCTensor.bind_optimizer_data] expected as many device_data as data, " +
                          std::to_string(data.size()) + ", but got " +
                          std::to_string(twins->size()));
  }
  tensor.set_optimizer_data(std::move(data));
}

const ClassDescription& TensorData::class_description() {
  const auto bytes = argument<MemoryInPlace>(kBytes, "Memory that may be written.");
  const auto immutable = argument<MemoryInPlace>(kImmutable, "Memory that is only read.");
  const auto length = traingraph::optional_argument<std::size_t>(
      "length", "Units: bytes; None: all of them.", &kLimit);
  const auto deallocator =
      argument<Deallocator>("deallocator", "Called with bytes and length when nobody uses them.");
  static const ClassDescription description =
      Describing<TensorData>("MLCTensorData",
                             "Bytes in host memory, or by DLPack in a GPU's, without a shape of "
                             "their own but for views of tensors.")
          .text(
              "Refers to a buffer's memory and keeps the buffer alive. Errors: ValueError for a "
              "buffer that is too short or read-only.")
          .form({bytes, length}, memory_of)
          .form({immutable, length}, memory_of)
          .form({bytes, length, deallocator}, memory_of)
          .property("length", &TensorData::length, "Units: bytes.")
          .repr([](const TensorData& self) {
            return "of " + std::to_string(self.length) + " bytes" +
                   (self.gpu < 0 ? "" : " on GPU " + std::to_string(self.gpu)) +
                   (self.writable ? "" : ", read-only");
          })
          .not_copied();
  return description;
}

const ClassDescription& OptimizerDeviceData::class_description() {
  static const ClassDescription description =
      Describing<OptimizerDeviceData>("MLCTensorOptimizerDeviceData",
                                      "The device's side of one optimizer buffer.")
          .repr([](const OptimizerDeviceData& self) {
            return std::to_string(self.slot) + " of '" + self.tensor->label() + "'";
          });
  return description;
}

const ClassDescription& Tensor::class_description() {
  static const ClassDescription description = [] {
    Describing<Tensor, Tensor> tensor("MLCTensor",
                                      "The handle of a tensor: shape, element type, label, maybe "
                                      "data.");
    tensor.text(
        "Without data, over the caller's memory, filled or random. Sequences are random unless "
        "data is given, be it None. Types: an array gives its own data type where none is stated. "
        "Memory that fits is written through by synchronize_updates(); a read-only array is "
        "copied. Errors: ValueError.");
    for (std::vector<Argument>& form : tensor_forms()) tensor.form(std::move(form), make_tensor);
    tensor.property("tensor_id", &Tensor::id, "Counts the process's tensors from 0.")
        .property("descriptor", &Tensor::descriptor, "Shape and element type.")
        .settable("label", &Tensor::label, &Tensor::set_label,
                  "A name for messages and dictionaries, at first data and the tensor_id.")
        .property("device", &Tensor::device, "The device that it was last compiled for.");
    describe_data(tensor);
    describe_quantization(tensor);
    return tensor.copied_by(&Tensor::copy).compared_by_identity().repr([](const Tensor& self) {
      const TensorDescriptor& descriptor = self.descriptor();
      return std::to_string(self.id()) + " '" + self.label() + "' " + to_string(descriptor.shape) +
             " " + name(descriptor.data_type);
    });
  }();
  return description;
}

const ClassDescription& TensorParameter::class_description() {
  static const ClassDescription description =
      Describing<TensorParameter>("MLCTensorParameter", "A tensor that training updates.")
          .text("Optimizer data is attached to the tensor.")
          .form({argument<TensorPtr>("tensor", "The tensor."),
                 optional_argument<DataList>("optimizer_data",
                                             "The optimizer's buffers, one array each.")},
                [](const Given& given) {
                  TensorParameter made{given.get<TensorPtr>("tensor"), true};
                  if (const auto data = given.get_optional<DataList>("optimizer_data")) {
                    bind_optimizer_data(*made.tensor, *data, std::nullopt);
                  }
                  return made;
                })
          .property("tensor", &TensorParameter::tensor, "The tensor.")
          .settable(
              "is_updatable",
              [](const TensorParameter& self) { return static_cast<bool>(self.is_updatable); },
              [](TensorParameter& self, bool updatable) { self.is_updatable = updatable; },
              "Whether updates change the tensor, from the next execution on. A change gives up a "
              "step whose micro-batches are summed, even if it is taken back. A graph that took "
              "this by set_training_tensor_parameters has a copy.")
          .not_copied()
          .repr([](const TensorParameter& self) {
            return "'" + self.tensor->label() + "'" + (self.is_updatable ? "" : ", frozen");
          });
  return description;
}

}  // namespace traingraph
