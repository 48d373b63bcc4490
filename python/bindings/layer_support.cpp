// Which data types a class of layers runs in: asked of the device's kernels with one small layer of
// that class. A new class of layers adds a row to `samples`.
#include "bindings.h"
#include "signature.h"

namespace traingraph::python {
namespace {

struct Sample {
  LayerPtr layer;
  std::vector<TensorDescriptor> sources;
};

struct Row {
  const char* name;
  Sample (*make)(DataType);
};

template <typename L, typename... Arguments>
LayerPtr made(Arguments&&... arguments) {
  return std::make_shared<L>(std::forward<Arguments>(arguments)...);
}

TensorPtr parameter(Shape shape, DataType type) {
  return Tensor::create(TensorDescriptor(std::move(shape), type));
}

Sample convolution(DataType t) {
  return {made<Convolution>(parameter({1, 1, 1, 1}, t), parameter({1, 1, 1, 1}, t),
                            ConvolutionDescriptor{}),
          {{{1, 1, 2, 2}, t}}};
}

Sample fully_connected(DataType t) {
  return {made<FullyConnected>(parameter({1, 1}, t), parameter({1, 1}, t), ConvolutionDescriptor{}),
          {{{2, 1}, t}}};
}

Sample batch_normalization(DataType t) {
  const Shape shape{1, 1, 1, 1};
  return {made<BatchNormalization>(1, parameter(shape, t), parameter(shape, t), parameter(shape, t),
                                   parameter(shape, t)),
          {{{2, 1, 2, 2}, t}}};
}

Sample relu(DataType t) {
  return {made<Activation>(ActivationDescriptor(ActivationType::kReLU)), {{{2, 2}, t}}};
}

constexpr Row kSamples[] = {
    {"MLCLayer", relu},
    {"MLCActivationLayer", relu},
    {"MLCArithmeticLayer",
     [](DataType t) {
       return Sample{made<Arithmetic>(ArithmeticOperation::kAdd), {{{2, 2}, t}, {{2, 2}, t}}};
     }},
    {"MLCBatchNormalizationLayer", batch_normalization},
    {"MLCConcatenationLayer",
     [](DataType t) { return Sample{made<Concatenation>(), {{{2, 2}, t}, {{2, 2}, t}}}; }},
    {"MLCConvolutionLayer", convolution},
    {"MLCDropoutLayer", [](DataType t) { return Sample{made<Dropout>(0.5f), {{{2, 2}, t}}}; }},
    {"MLCFullyConnectedLayer", fully_connected},
    {"MLCGatherLayer",
     [](DataType t) { return Sample{made<Gather>(1), {{{2, 2}, t}, {{1}, DataType::kInt64}}}; }},
    {"MLCLossLayer",
     [](DataType t) { return Sample{made<Loss>(LossDescriptor{}), {{{2, 2}, t}, {{2, 2}, t}}}; }},
    {"MLCMatMulLayer",
     [](DataType t) { return Sample{made<MatMul>(), {{{2, 2}, t}, {{2, 2}, t}}}; }},
    {"MLCPoolingLayer",
     [](DataType t) { return Sample{made<Pooling>(PoolingDescriptor{}), {{{1, 1, 2, 2}, t}}}; }},
    {"MLCReshapeLayer", [](DataType t) { return Sample{made<Reshape>(Shape{4}), {{{2, 2}, t}}}; }},
    {"MLCScatterLayer",
     [](DataType t) {
       return Sample{made<Scatter>(1, ReductionType::kNone),
                     {{{2, 1}, t}, {{1}, DataType::kInt64}, {{2, 2}, t}}};
     }},
    {"MLCSelectionLayer",
     [](DataType t) {
       return Sample{made<Selection>(), {{{2, 2}, DataType::kBoolean}, {{2, 2}, t}, {{2, 2}, t}}};
     }},
    {"MLCSoftmaxLayer",
     [](DataType t) { return Sample{made<Softmax>(SoftmaxOperation::kSoftmax), {{{2, 2}, t}}}; }},
    {"MLCSplitLayer",
     [](DataType t) { return Sample{made<Split>(std::int64_t{2}), {{{2, 2}, t}}}; }},
    {"MLCTransposeLayer",
     [](DataType t) {
       return Sample{made<Transpose>(std::vector<std::int64_t>{1, 0}), {{{2, 2}, t}}};
     }},
};

}  // namespace

void bind_layer_support(py::module_& module) {
  for (const Row& row : kSamples) {
    auto cls = py::reinterpret_borrow<BoundClass<Layer, LayerPtr>>(module.attr(row.name));
    def_factory(cls, "supports_data_type", "bool",
                {"data_type: MLCDataType | numpy.typing.DTypeLike, on: MLCDevice | str"},
                "Whether the device has the kernels to compute such layers in this type, forward "
                "and gradient; asked of MLCLayer itself, whether it computes in the type at all.",
                [make = row.make](const Arguments& arguments) {
                  const Sample sample = make(arguments.get<DataType>("data_type"));
                  return has_kernels(*sample.layer, sample.sources, arguments.get<Device>("on"));
                });
  }
}

}  // namespace traingraph::python
