// Initialisers of MLCTensor, by descriptor, shape, image, sequence lengths or data, and
// bind_optimizer_data().
#include "mlcompute/tensor_forms.h"

#include <algorithm>

#include "convert/convert.h"
#include "convert/data.h"
#include "convert/release.h"

namespace traingraph::python {
namespace {

bool of_sequences(const Arguments& arguments) {
  return arguments.given("sequence_length") || arguments.given("sequence_lengths");
}

// (batch, longest, features); equal lengths count as sorted.
TensorDescriptor sequences_of(const Arguments& arguments) {
  const auto batch = arguments.get<std::int64_t>("batch_size");
  const auto features = arguments.get<std::int64_t>("feature_channel_count");
  if (arguments.given("sequence_lengths")) {
    const auto lengths = arguments.get<Shape>("sequence_lengths");
    const std::int64_t longest = lengths.empty() ? 0 : std::ranges::max(lengths);
    return TensorDescriptor::of_sequences({batch, longest, features}, lengths,
                                          arguments.get<bool>("sorted_sequences"));
  }
  const auto length = arguments.get<std::int64_t>("sequence_length");
  const TensorDescriptor checked({batch, length, features});
  return TensorDescriptor::of_sequences(checked.shape,
                                        Shape(static_cast<std::size_t>(batch), length), true);
}

Shape shape_of(const Arguments& arguments) {
  if (arguments.given("shape")) {
    return arguments.get<Shape>("shape");
  }
  const auto extent = [&arguments](const char* name) { return arguments.get<std::int64_t>(name); };
  return {extent("batch_size"), extent("feature_channel_count"), extent("height"), extent("width")};
}

// What the caller describes without the data's help.
TensorDescriptor descriptor_of(const Arguments& arguments) {
  if (arguments.given("descriptor")) {
    return arguments.get<TensorDescriptor>("descriptor");
  }
  if (of_sequences(arguments)) {
    return sequences_of(arguments);
  }
  return {shape_of(arguments),
          arguments.optional<DataType>("data_type").value_or(DataType::kFloat32)};
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
  if (of_sequences(arguments)) {
    TensorDescriptor descriptor = sequences_of(arguments);
    if (!raw) descriptor.data_type = data.data_type;
    return Tensor::create(std::move(descriptor), std::move(data));
  }
  const bool shaped = arguments.given("shape") || arguments.given("width");
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
  TensorDescriptor descriptor = descriptor_of(arguments);
  if (arguments.given("random_initializer_type")) {
    return Tensor::random(std::move(descriptor),
                          arguments.get<RandomInitializerType>("random_initializer_type"));
  }
  if (arguments.given("fill_with_data")) {
    return Tensor::filled(std::move(descriptor), arguments.get<double>("fill_with_data"));
  }
  // Apple fills a sequence with random values unless it is told otherwise.
  if (of_sequences(arguments) && !arguments.given("data")) {
    return Tensor::random(std::move(descriptor), RandomInitializerType::kUniform);
  }
  return Tensor::create(std::move(descriptor));
}

}  // namespace

void bind_tensor_forms(BoundClass<Tensor, TensorPtr>& cls) {
  const std::string shape = "shape: Sequence[int], ";
  const std::string image =
      "width: int, height: int, feature_channel_count: int, batch_size: int, ";
  const std::string sequence = "sequence_length: int, feature_channel_count: int, batch_size: int";
  const std::string sequences =
      "sequence_lengths: Sequence[int], sorted_sequences: bool, "
      "feature_channel_count: int, batch_size: int";
  const std::string maybe_data = ", data: ArrayLike | MLCTensorData | None = None";
  const std::string random = "random_initializer_type: MLCRandomInitializerType | str, ";
  const std::string array = "data: ArrayLike | MLCTensorData, ";
  const std::string type = "data_type: MLCDataType | DTypeLike = MLCDataType.FLOAT32";
  const std::string own_type = "data_type: MLCDataType | DTypeLike | None = None";
  def_init(
      cls,
      {"descriptor: MLCTensorDescriptor", "descriptor: MLCTensorDescriptor, " + random,
       "descriptor: MLCTensorDescriptor, " + array,
       "descriptor: MLCTensorDescriptor, fill_with_data: float", shape + type,
       shape + random + type, shape + array + own_type, shape + "fill_with_data: float, " + type,
       image + type, image + random + type, image + array + own_type,
       image + "fill_with_data: float, " + type, sequence, sequence + ", " + random,
       sequence + maybe_data, sequences, sequences + ", " + random, sequences + maybe_data,
       array + own_type},
      "Without data, over the caller's memory, filled or random. Sequences are random unless data "
      "is given, be it None. Types: an array gives its own data type where none is stated. Memory "
      "that fits is written through by "
      "synchronize_updates(); a read-only array is copied. Errors: ValueError.",
      make_tensor);
}

void bind_optimizer_data(Tensor& tensor, const Arguments& arguments, const char* argument) {
  std::vector<TensorData> data;
  for (const py::object& item : to_items(arguments[argument], arguments.where(argument))) {
    data.push_back(
        readable_data(item, tensor.descriptor().data_type,
                      {"MLCTensor.bind_optimizer_data", "optimizer data of", tensor.label()}));
  }
  // The device's side follows the data by itself; what is named must be there.
  if (!arguments["device_data"].is_none()) {
    const auto twins =
        convert_list<OptimizerDeviceData>(arguments["device_data"], arguments.where("device_data"));
    if (twins.size() != data.size()) {
      throw InvalidArgument(
          "[MLCTensor.bind_optimizer_data] expected as many device_data as data, " +
          std::to_string(data.size()) + ", but got " + std::to_string(twins.size()));
    }
  }
  const ReleasedGil released;
  tensor.set_optimizer_data(std::move(data));
}

}  // namespace traingraph::python
