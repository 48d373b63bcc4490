// Forms of tensors: what makes them of what is given.
#include "graph/description/tensor_forms.h"

#include <algorithm>

#include <traingraph/class_description.h>
#include <traingraph/errors.h>

namespace traingraph {
namespace {

bool has(const Given& given, const char* name) { return given.find(name) != nullptr; }

std::int64_t extent(const Given& given, const char* name) { return given.get<std::int64_t>(name); }

bool of_sequences(const Given& given) {
  return has(given, "sequence_length") || has(given, "sequence_lengths");
}

// (batch, longest, features); equal lengths count as sorted.
TensorDescriptor sequences_of(const Given& given) {
  const std::int64_t batch = extent(given, "batch_size");
  const std::int64_t features = extent(given, "feature_channel_count");
  if (has(given, "sequence_lengths")) {
    const auto lengths = given.get<Shape>("sequence_lengths");
    const std::int64_t longest = lengths.empty() ? 0 : std::ranges::max(lengths);
    return TensorDescriptor::of_sequences({batch, longest, features}, lengths,
                                          given.get<bool>("sorted_sequences"));
  }
  const std::int64_t length = extent(given, "sequence_length");
  const TensorDescriptor checked({batch, length, features});
  return TensorDescriptor::of_sequences(checked.shape,
                                        Shape(static_cast<std::size_t>(batch), length), true);
}

Shape shape_of(const Given& given) {
  if (has(given, "shape")) return given.get<Shape>("shape");
  return {extent(given, "batch_size"), extent(given, "feature_channel_count"),
          extent(given, "height"), extent(given, "width")};
}

// What the caller describes without the data's help.
TensorDescriptor descriptor_of(const Given& given) {
  if (has(given, "descriptor")) return given.get<TensorDescriptor>("descriptor");
  if (of_sequences(given)) return sequences_of(given);
  return {shape_of(given), given.get_optional<DataType>("data_type").value_or(DataType::kFloat32)};
}

// The data's own type where the caller names none.
TensorPtr with_data(const Given& given) {
  const auto read = [&given](DataType type) {
    return given.get<DataToShare>("data").read(type, "data", {});
  };
  if (has(given, "descriptor")) {
    auto descriptor = given.get<TensorDescriptor>("descriptor");
    TensorData data = read(descriptor.data_type);
    return Tensor::create(std::move(descriptor), std::move(data));
  }
  const auto type = given.get_optional<DataType>("data_type").value_or(DataType::kInvalid);
  TensorData data = read(type);
  const bool raw = data.data_type == DataType::kInvalid;
  if (of_sequences(given)) {
    TensorDescriptor descriptor = sequences_of(given);
    if (!raw) descriptor.data_type = data.data_type;
    return Tensor::create(std::move(descriptor), std::move(data));
  }
  const bool shaped = has(given, "shape") || has(given, "width");
  if (raw && !shaped) {
    throw InvalidArgument("[MLCTensor] expected shape with data that has none of its own");
  }
  const DataType untyped = type == DataType::kInvalid ? DataType::kFloat32 : type;
  TensorDescriptor descriptor(shaped ? shape_of(given) : data.shape,
                              raw ? untyped : data.data_type);
  return Tensor::create(std::move(descriptor), std::move(data));
}

}  // namespace

TensorPtr make_tensor(const Given& given) {
  const std::any* const data = given.find("data");
  if (data != nullptr && data->has_value()) return with_data(given);
  TensorDescriptor descriptor = descriptor_of(given);
  if (has(given, "random_initializer_type")) {
    return Tensor::random(std::move(descriptor),
                          given.get<RandomInitializerType>("random_initializer_type"));
  }
  if (has(given, "fill_with_data")) {
    return Tensor::filled(std::move(descriptor), given.get<double>("fill_with_data"));
  }
  // Apple fills a sequence with random values unless it is told otherwise.
  if (of_sequences(given) && data == nullptr) {
    return Tensor::random(std::move(descriptor), RandomInitializerType::kUniform);
  }
  return Tensor::create(std::move(descriptor));
}

std::vector<std::vector<Argument>> tensor_forms() {
  using Arguments = std::vector<Argument>;
  const auto number = [](const char* name, const char* text) {
    return argument<std::int64_t>(name, text, &kOneOrMore);
  };
  const Arguments described = {argument<TensorDescriptor>("descriptor", "Shape and element type.")};
  const Arguments shape = {argument<Shape>("shape", "Extents, outermost first.", &kOneOrMore)};
  const Arguments image = {number("width", "Columns."), number("height", "Rows."),
                           number("feature_channel_count", "Channels, or features of a step."),
                           number("batch_size", "Images or sequences.")};
  const Arguments channels = {image[2], image[3]};
  const Arguments sequence = {number("sequence_length", "Steps of every sequence.")};
  const Arguments sequences = {
      argument<Shape>("sequence_lengths", "Steps of each sequence.", &kOneOrMore),
      argument<bool>("sorted_sequences", "Whether the sequences descend in length.")};
  const Arguments random = {
      argument<RandomInitializerType>("random_initializer_type", "The initializer.")};
  const Arguments filled = {argument<double>("fill_with_data", "The value of every element.")};
  constexpr const char* kData = "An array, or memory of the caller's; None: no data.";
  const Arguments data = {argument<DataToShare>("data", kData)};
  const Arguments maybe_data = {optional_argument<DataToShare>("data", kData)};
  constexpr const char* kType = "The type of an element; None: the data's own.";
  const Arguments type = {argument("data_type", DataType::kFloat32, kType)};
  const Arguments own_type = {optional_argument<DataType>("data_type", kType)};

  std::vector<Arguments> forms;
  const auto add = [&forms](std::initializer_list<const Arguments*> parts) {
    Arguments& form = forms.emplace_back();
    for (const Arguments* part : parts) form.insert(form.end(), part->begin(), part->end());
  };
  add({&described});
  add({&described, &random});
  add({&described, &data});
  add({&described, &filled});
  for (const Arguments* extents : {&shape, &image}) {
    add({extents, &type});
    add({extents, &random, &type});
    add({extents, &data, &own_type});
    add({extents, &filled, &type});
  }
  for (const Arguments* lengths : {&sequence, &sequences}) {
    add({lengths, &channels});
    add({lengths, &channels, &random});
    add({lengths, &channels, &maybe_data});
  }
  add({&data, &own_type});
  return forms;
}

}  // namespace traingraph
