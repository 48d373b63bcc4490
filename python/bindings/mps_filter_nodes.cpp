#include "mps_neurons.h"
#include "mps_node_bindings.h"

namespace traingraph::python {
namespace {

using mps::CNNPoolingType;
using mps::NeuronType;
using mps::NNFilterNode;
using mps::NNGradientFilterNode;
using mps::NNImageNodePtr;
using mps::NNStateNodePtr;

template <typename T, typename Base>
auto bind_convolution_node(py::module_& module, const char* name, const char* doc) {
  auto cls = bind_node<T, Base>(module, name, doc);
  def_init(cls, {kNodeSource + ", weights: typing.Any"}, "The weights are a data source.",
           [](const Arguments& a) {
             return std::make_shared<T>(source_node(a), to_convolution_source(a["weights"]));
           });
  return cls;
}

template <typename T, typename Base>
auto bind_convolution_gradient_node(py::module_& module, const char* name, const char* doc) {
  auto cls = bind_node<T, Base>(module, name, doc);
  const char* const state = "convolution_gradient_state";
  def_init(cls, {kNodeGradientSources + state + ": MPSNNStateNode, weights: typing.Any = None"},
           "Without weights: the forward node's. Errors: the state of another kind of node.",
           [state](const Arguments& a) {
             return std::make_shared<T>(
                 a.get<NNImageNodePtr>("source_gradient"), a.get<NNImageNodePtr>("source_image"),
                 a.get<NNStateNodePtr>(state), nullable_convolution_source(a["weights"]));
           });
  return cls;
}

void bind_convolution_nodes(py::module_& module) {
  using Node = mps::CNNConvolutionNode;
  auto forward = bind_convolution_node<Node, NNFilterNode>(module, "MPSCNNConvolutionNode",
                                                           "MPSCNNConvolution in a graph.");
  def_training_style(forward);
  forward.def_property_readonly("convolution_gradient_state", &Node::convolution_gradient_state,
                                "What the gradient node needs.");
  bind_convolution_node<mps::CNNFullyConnectedNode, Node>(module, "MPSCNNFullyConnectedNode",
                                                          "MPSCNNFullyConnected in a graph.");
  using Gradient = mps::CNNConvolutionGradientNode;
  auto gradient = bind_convolution_gradient_node<Gradient, NNGradientFilterNode>(
      module, "MPSCNNConvolutionGradientNode",
      "Gradients by data and weights; calls the data source for an update.");
  def_training_style(gradient);
  bind_convolution_gradient_node<mps::CNNFullyConnectedGradientNode, Gradient>(
      module, "MPSCNNFullyConnectedGradientNode", "The same for MPSCNNFullyConnectedNode.");
}

template <NeuronType kType>
struct NeuronNodeOf final : mps::CNNNeuronNode {
  NeuronNodeOf(NNImageNodePtr from, mps::NeuronDescriptor descriptor, const char* name)
      : CNNNeuronNode(std::move(from), std::move(descriptor), name) {}
};

template <NeuronType kType>
void bind_neuron_node(py::module_& module, const NeuronName& row) {
  using T = NeuronNodeOf<kType>;
  static const std::string name = "MPSCNNNeuron" + std::string(row.name) + "Node";
  auto cls = bind_node<T, mps::CNNNeuronNode>(module, name.c_str(), row.doc);
  constexpr bool kSlopes = kType == NeuronType::kPReLU;
  def_init(cls, {kNodeSource + (kSlopes ? ", a_data: list[float]" : row.parameters)},
           "The parameters are those of MPSNNNeuronDescriptor.", [row](const Arguments& a) {
             std::vector<float> slopes;
             if (kSlopes) slopes = a.get<std::vector<float>>("a_data");
             return std::make_shared<T>(source_node(a), named_neuron(row, a, std::move(slopes)),
                                        name.c_str());
           });
}

void bind_neuron_nodes(py::module_& module) {
  using Node = mps::CNNNeuronNode;
  auto forward = bind_node<Node, NNFilterNode>(module, "MPSCNNNeuronNode", "y = f(x).");
  def_init(forward, {kNodeSource + ", descriptor: MPSNNNeuronDescriptor"}, "Any function.",
           [](const Arguments& a) {
             return std::make_shared<Node>(source_node(a),
                                           a.get<mps::NeuronDescriptor>("descriptor"));
           });
  forward.def_property_readonly(
      "a", [](const Node& self) { return self.descriptor().a; }, "The first parameter.");
  forward.def_property_readonly(
      "b", [](const Node& self) { return self.descriptor().b; }, "The second parameter.");
  forward.def_property_readonly(
      "c", [](const Node& self) { return self.descriptor().c; }, "The third parameter.");
  each_neuron(
      [&module]<NeuronType kType>(const NeuronName& row) { bind_neuron_node<kType>(module, row); });
  using Gradient = mps::CNNNeuronGradientNode;
  auto gradient = bind_node<Gradient, NNGradientFilterNode>(module, "MPSCNNNeuronGradientNode",
                                                            "dx = dy f'(x).");
  def_init(gradient, {kNodeGradientForm + ", descriptor: MPSNNNeuronDescriptor"},
           "Errors: the state of another kind of node.", [](const Arguments& arguments) {
             return std::make_shared<Gradient>(arguments.get<NNImageNodePtr>("source_gradient"),
                                               arguments.get<NNImageNodePtr>("source_image"),
                                               arguments.get<NNStateNodePtr>("gradient_state"),
                                               arguments.get<mps::NeuronDescriptor>("descriptor"));
           });
  gradient.def_property_readonly("descriptor", &Gradient::descriptor, "The function.");
}

template <typename Class>
void def_pooling_window(Class& cls) {
  using Self = typename Class::type;
  const auto add = [&cls](const char* name, std::int64_t mps::KernelWindow::* member) {
    cls.def_property_readonly(
        name, [member](const Self& self) { return self.window().*member; }, "In pixels.");
  };
  add("kernel_width", &mps::KernelWindow::kernel_width);
  add("kernel_height", &mps::KernelWindow::kernel_height);
  add("stride_in_pixels_x", &mps::KernelWindow::stride_x);
  add("stride_in_pixels_y", &mps::KernelWindow::stride_y);
}

template <typename Class>
void def_dilation(Class& cls) {
  using Self = typename Class::type;
  cls.def_property_readonly(
      "dilation_rate_x", [](const Self& self) { return self.window().dilation_x; }, "In pixels.");
  cls.def_property_readonly(
      "dilation_rate_y", [](const Self& self) { return self.window().dilation_y; }, "In pixels.");
}

mps::KernelWindow window_of(const Arguments& a) {
  mps::KernelWindow w;
  if (a.given("filter_size")) {
    w.kernel_width = w.kernel_height = a.get<std::int64_t>("filter_size");
    // Windows beside each other unless the stride says otherwise.
    w.stride_x = w.stride_y = a.optional<std::int64_t>("stride").value_or(w.kernel_width);
    w.dilation_x = w.dilation_y = a.optional<std::int64_t>("dilation_rate").value_or(1);
    return w;
  }
  w.kernel_width = a.get<std::int64_t>("kernel_width");
  w.kernel_height = a.get<std::int64_t>("kernel_height");
  w.stride_x = a.get<std::int64_t>("stride_in_pixels_x");
  w.stride_y = a.get<std::int64_t>("stride_in_pixels_y");
  w.dilation_x = a.optional<std::int64_t>("dilation_rate_x").value_or(1);
  w.dilation_y = a.optional<std::int64_t>("dilation_rate_y").value_or(1);
  return w;
}

template <CNNPoolingType kType, typename Base>
void bind_pooling_pair(py::module_& module, const std::string& name) {
  constexpr bool dilated = kType == CNNPoolingType::kDilatedMax;
  using Forward = mps::CNNPoolingNodeOf<kType>;
  using Gradient = mps::CNNPoolingGradientNodeOf<kType>;
  const std::string sizes = std::string(
                                "kernel_width: int, kernel_height: int, stride_in_pixels_x: int, "
                                "stride_in_pixels_y: int") +
                            (dilated ? ", dilation_rate_x: int, dilation_rate_y: int" : "");
  const std::string rate = dilated ? ", dilation_rate: int | None = None" : "";
  auto forward =
      bind_node<Forward, Base>(module, (name + "Node").c_str(), "The kernel in a graph.");
  def_init(forward,
           {kNodeSource + ", filter_size: int, stride: int | None = None" + rate,
            kNodeSource + ", " + sizes},
           "Without a stride windows lie beside each other.", [](const Arguments& a) {
             return std::make_shared<Forward>(source_node(a), window_of(a));
           });
  auto gradient = bind_node<Gradient, mps::CNNPoolingGradientNode>(
      module, (name + "GradientNode").c_str(), "The gradient kernel in a graph.");
  def_init(gradient, {kNodeGradientForm + ", " + sizes + ", padding_policy: typing.Any = None"},
           "The window is the forward node's; so is the padding, whatever the policy says.",
           [](const Arguments& a) {
             return std::make_shared<Gradient>(
                 a.get<NNImageNodePtr>("source_gradient"), a.get<NNImageNodePtr>("source_image"),
                 a.get<NNStateNodePtr>("gradient_state"), window_of(a));
           });
  if constexpr (dilated) {
    def_dilation(forward);
    def_dilation(gradient);
  }
}

void bind_pooling_nodes(py::module_& module) {
  using Node = mps::CNNPoolingNode;
  auto forward = bind_node<Node, NNFilterNode>(module, "MPSCNNPoolingNode",
                                               "Joins the pixels of each window.");
  def_pooling_window(forward);
  auto gradient = bind_node<mps::CNNPoolingGradientNode, NNGradientFilterNode>(
      module, "MPSCNNPoolingGradientNode", "Spreads each gradient over its window.");
  def_pooling_window(gradient);
  bind_pooling_pair<CNNPoolingType::kMax, Node>(module, "MPSCNNPoolingMax");
  bind_pooling_pair<CNNPoolingType::kAverage, Node>(module, "MPSCNNPoolingAverage");
  bind_pooling_pair<CNNPoolingType::kL2Norm, Node>(module, "MPSCNNPoolingL2Norm");
  bind_pooling_pair<CNNPoolingType::kDilatedMax, Node>(module, "MPSCNNDilatedPoolingMax");
}

void bind_normalization_nodes(py::module_& module) {
  using Node = mps::CNNBatchNormalizationNode;
  auto forward = bind_node<Node, NNFilterNode>(module, "MPSCNNBatchNormalizationNode",
                                               "Normalizes by the batch where it is trained.");
  def_init(forward, {kNodeSource + ", data_source: typing.Any"}, "Gamma, beta and statistics.",
           [](const Arguments& a) {
             return std::make_shared<Node>(source_node(a),
                                           batch_normalization_source(a["data_source"]));
           });
  def_training_style(forward);
  forward.def_property(
      "flags", [](const Node& self) { return self.flags; },
      [](Node& self, mps::CNNBatchNormalizationFlags value) { self.flags = value; },
      "When the statistics of the batch are used.");
  auto gradient = bind_gradient_node<mps::CNNBatchNormalizationGradientNode>(
      module, "MPSCNNBatchNormalizationGradientNode",
      "Both gradient kernels; calls the data source for an update.");
  def_training_style(gradient);
}

// Instance or group normalization.
template <typename Forward, typename Gradient>
void bind_image_normalization_nodes(py::module_& module, const std::string& name) {
  auto forward =
      bind_node<Forward, NNFilterNode>(module, (name + "Node").c_str(), "The kernel in a graph.");
  const std::string protocol = name + "DataSource";
  def_init(forward, {kNodeSource + ", data_source: typing.Any"}, "Gamma and beta.",
           [protocol](const Arguments& a) {
             return std::make_shared<Forward>(
                 source_node(a), image_normalization_source(a["data_source"], protocol));
           });
  def_training_style(forward);
  auto gradient = bind_gradient_node<Gradient>(
      module, (name + "GradientNode").c_str(),
      "The gradient kernel in a graph; calls the data source for an update.");
  def_training_style(gradient);
}

template <typename Forward, typename Gradient>
void bind_softmax_nodes(py::module_& module, const std::string& name) {
  auto forward = bind_node<Forward, NNFilterNode>(module, (name + "Node").c_str(),
                                                  "Over the channels of each pixel.");
  def_init(forward, {kNodeSource}, "Shapes: any to the same.",
           [](const Arguments& a) { return std::make_shared<Forward>(source_node(a)); });
  bind_gradient_node<Gradient>(module, (name + "GradientNode").c_str(),
                               "The source image is the forward node's result.");
}

}  // namespace

void bind_mps_filter_nodes(py::module_& module) {
  bind_convolution_nodes(module);
  bind_neuron_nodes(module);
  bind_pooling_nodes(module);
  bind_normalization_nodes(module);
  bind_image_normalization_nodes<mps::CNNInstanceNormalizationNode,
                                 mps::CNNInstanceNormalizationGradientNode>(
      module, "MPSCNNInstanceNormalization");
  bind_image_normalization_nodes<mps::CNNGroupNormalizationNode,
                                 mps::CNNGroupNormalizationGradientNode>(
      module, "MPSCNNGroupNormalization");
  bind_softmax_nodes<mps::CNNSoftMaxNode, mps::CNNSoftMaxGradientNode>(module, "MPSCNNSoftMax");
  bind_softmax_nodes<mps::CNNLogSoftMaxNode, mps::CNNLogSoftMaxGradientNode>(module,
                                                                             "MPSCNNLogSoftMax");
  auto loss = bind_node<mps::CNNLossNode, NNFilterNode>(
      module, "MPSCNNLossNode", "Its result is the gradient of its source.");
  def_init(loss, {kNodeSource + ", loss_descriptor: MPSCNNLossDescriptor"},
           "The loss goes into the labels.", [](const Arguments& a) {
             return std::make_shared<mps::CNNLossNode>(
                 source_node(a), a.get<mps::CNNLossDescriptor>("loss_descriptor"));
           });
  loss.def_property_readonly("input_labels", &mps::CNNLossNode::input_labels,
                             "Where encodings bring MPSCNNLossLabels.");
}

}  // namespace traingraph::python
