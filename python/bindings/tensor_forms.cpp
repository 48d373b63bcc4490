#include "tensor_forms.h"

#include "convert.h"
#include "data.h"
#include "release.h"

namespace traingraph::python {
namespace {

Shape shape_of(const Arguments& arguments) {
  if (arguments.given("shape")) {
    return arguments.get<Shape>("shape");
  }
  const auto extent = [&arguments](const char* name) { return arguments.get<std::int64_t>(name); };
  if (arguments.given("sequence_length")) {
    return {extent("batch_size"), extent("sequence_length"), extent("feature_channel_count")};
  }
  return {extent("batch_size"), extent("feature_channel_count"), extent("height"), extent("width")};
}

// The data's own type where the caller names none.
TensorPtr with_data(const Arguments& arguments) {
  const Target target{"MLCTensor", "data", {}};
  if (arguments.given("descriptor")) {
    auto descriptor = arguments.get<TensorDescriptor>("descriptor");
    TensorData data = parameter_data(arguments["data"], descriptor.data_type, target);
    return Tensor::create(std::move(descriptor), std::move(data));
  }
  const auto type = arguments.optional<DataType>("data_type").value_or(DataType::kInvalid);
  TensorData data = parameter_data(arguments["data"], type, target);
  const bool raw = data.data_type == DataType::kInvalid;
  const bool shaped =
      arguments.given("shape") || arguments.given("width") || arguments.given("sequence_length");
  if (raw && !shaped) {
    throw InvalidArgument("[MLCTensor] expected shape with data that has none of its own");
  }
  const DataType untyped = type == DataType::kInvalid ? DataType::kFloat32 : type;
  TensorDescriptor descriptor(shaped ? shape_of(arguments) : data.shape,
                              raw ? untyped : data.data_type);
  return Tensor::create(std::move(descriptor), std::move(data));
}

TensorPtr make_tensor(const Arguments& arguments) {
  if (arguments.given("data") && !arguments["data"].is_none()) {
    return with_data(arguments);
  }
  TensorDescriptor descriptor =
      arguments.given("descriptor")
          ? arguments.get<TensorDescriptor>("descriptor")
          : TensorDescriptor(
                shape_of(arguments),
                arguments.optional<DataType>("data_type").value_or(DataType::kFloat32));
  if (arguments.given("random_initializer_type")) {
    return Tensor::random(std::move(descriptor),
                          arguments.get<RandomInitializerType>("random_initializer_type"));
  }
  if (arguments.given("fill_with_data")) {
    return Tensor::filled(std::move(descriptor), arguments.get<double>("fill_with_data"));
  }
  // Apple fills a sequence with random values unless it is told otherwise.
  if (arguments.given("sequence_length") && !arguments.given("data")) {
    return Tensor::random(std::move(descriptor), RandomInitializerType::kUniform);
  }
  return Tensor::create(std::move(descriptor));
}

}  // namespace

void bind_tensor_forms(py::class_<Tensor, TensorPtr>& cls) {
  const std::string shape = "shape: collections.abc.Sequence[int], ";
  const std::string image =
      "width: int, height: int, feature_channel_count: int, batch_size: int, ";
  const std::string sequence = "sequence_length: int, feature_channel_count: int, batch_size: int";
  const std::string random = "random_initializer_type: MLCRandomInitializerType | str, ";
  const std::string array = "data: numpy.typing.ArrayLike | MLCTensorData, ";
  const std::string type = "data_type: MLCDataType | numpy.typing.DTypeLike = MLCDataType.FLOAT32";
  const std::string own_type = "data_type: MLCDataType | numpy.typing.DTypeLike | None = None";
  def_init(
      cls,
      {"descriptor: MLCTensorDescriptor", "descriptor: MLCTensorDescriptor, " + random,
       "descriptor: MLCTensorDescriptor, " + array,
       "descriptor: MLCTensorDescriptor, fill_with_data: float", shape + type,
       shape + random + type, shape + array + own_type, shape + "fill_with_data: float, " + type,
       image + type, image + random + type, image + array + own_type,
       image + "fill_with_data: float, " + type, sequence, sequence + ", " + random,
       sequence + ", data: numpy.typing.ArrayLike | MLCTensorData | None = None", array + own_type},
      "Without data, over the caller's memory, filled or random. Types: an array gives its own "
      "data type where none is stated. Memory that fits is written through by "
      "synchronize_updates(); a read-only array is copied. Errors: ValueError.",
      make_tensor);
}

void bind_optimizer_data(Tensor& tensor, const Arguments& arguments, const char* argument) {
  if (!arguments["device_data"].is_none()) {
    to_items(arguments["device_data"], arguments.where("device_data"));
  }
  std::vector<TensorData> data;
  for (const py::object& item : to_items(arguments[argument], arguments.where(argument))) {
    data.push_back(
        readable_data(item, tensor.descriptor().data_type,
                      {"MLCTensor.bind_optimizer_data", "optimizer data of", tensor.label()}));
  }
  const py::gil_scoped_release release;
  tensor.set_optimizer_data(std::move(data));
}

}  // namespace traingraph::python
