// Nodes of windows: pooling and local normalizations.
#include "mps/description/describe_unary_nodes.h"

namespace traingraph::mps {
namespace {

// --- pooling -------------------------------------------------------------------------------------

Arguments window_arguments(bool dilated) {
  Arguments sizes;
  for (const char* name : {"kernel_width", "kernel_height", "stride_in_pixels_x",
                           "stride_in_pixels_y", "dilation_rate_x", "dilation_rate_y"}) {
    sizes.push_back(argument<std::int64_t>(name, kInPixels, &kOfWindow));
  }
  if (!dilated) sizes.resize(4);
  return sizes;
}

std::int64_t given_or(const Given& given, const char* name, std::int64_t otherwise) {
  const std::any* const value = given.find(name);
  return value != nullptr && value->has_value() ? std::any_cast<std::int64_t>(*value) : otherwise;
}

KernelWindow window_of(const Given& given) {
  KernelWindow w;
  w.kernel_width = given.get<std::int64_t>("kernel_width");
  w.kernel_height = given.get<std::int64_t>("kernel_height");
  w.stride_x = given.get<std::int64_t>("stride_in_pixels_x");
  w.stride_y = given.get<std::int64_t>("stride_in_pixels_y");
  w.dilation_x = given_or(given, "dilation_rate_x", 1);
  w.dilation_y = given_or(given, "dilation_rate_y", 1);
  return w;
}

KernelWindow square_window_of(const Given& given) {
  KernelWindow w;
  w.kernel_width = w.kernel_height = given.get<std::int64_t>("filter_size");
  w.stride_x = w.stride_y = given_or(given, "stride", w.kernel_width);
  w.dilation_x = w.dilation_y = given_or(given, "dilation_rate", 1);
  return w;
}

template <class T, class Parent>
void describe_window(DescribingNode<T, Parent>& described) {
  parameter(described, "kernel_width", &KernelWindow::kernel_width, kInPixels);
  parameter(described, "kernel_height", &KernelWindow::kernel_height, kInPixels);
  parameter(described, "stride_in_pixels_x", &KernelWindow::stride_x, kInPixels);
  parameter(described, "stride_in_pixels_y", &KernelWindow::stride_y, kInPixels);
}
template <class T, class Parent>
void describe_dilation(DescribingNode<T, Parent>& described) {
  parameter(described, "dilation_rate_x", &KernelWindow::dilation_x, kInPixels);
  parameter(described, "dilation_rate_y", &KernelWindow::dilation_y, kInPixels);
}

void describe_pooling_nodes(Classes& classes) {
  using Node = ParameterNode<KernelWindow>;
  using Gradient = ParameterGradientNode<KernelWindow>;
  DescribingNode<Node> base("MPSCNNPoolingNode", "Joins the pixels of each window.");
  describe_window(base);
  DescribingNode<Gradient, NNGradientFilterNode> gradient_base(
      "MPSCNNPoolingGradientNode", "Spreads each gradient over its window.");
  describe_window(gradient_base);
  classes.insert(classes.end(), {base, gradient_base});
  for (const NodeRow<KernelWindow>& row : kPoolingNodes) {
    const bool dilated = row.which == static_cast<int>(CNNPoolingType::kDilatedMax);
    const Arguments sizes = window_arguments(dilated);
    Arguments square = {argument<std::int64_t>(
                            "filter_size", "The window's width and height, in pixels.", &kOfWindow),
                        optional_argument<std::int64_t>(
                            "stride", "In pixels; else the window's size.", &kOfWindow)};
    if (dilated) {
      square.push_back(optional_argument<std::int64_t>("dilation_rate", "1, if none.", &kOfWindow));
    }
    auto forward = forward_node<KernelWindow, Node>(
        row, "The kernel in a graph.", "Without a stride windows lie beside each other.", square,
        square_window_of);
    Arguments all = sizes;
    all.insert(all.begin(), source_argument());
    forward.form(all, [row](const Given& given) {
      return std::make_shared<Node>(row, given.get<NNImageNodePtr>("source"), window_of(given));
    });
    Arguments rest = sizes;
    rest.push_back(optional_argument<PaddingPolicy>("padding_policy", "Ignored."));
    auto gradient = gradient_node<KernelWindow, Gradient>(
        row, "The gradient kernel in a graph.",
        "The window is the forward node's; so is the padding, whatever the policy says.", rest,
        [](Gradient& node, const Given& given) { node.set_parameters(window_of(given)); });
    if (dilated) {
      describe_dilation(forward);
      describe_dilation(gradient);
    }
    classes.insert(classes.end(), {forward, gradient});
  }
}

// --- local normalizations ------------------------------------------------------------------------

using Local = LocalNormalization;
using LocalGradient = ParameterGradientNode<Local>;

template <class T, class Parent>
void describe_divisor(DescribingNode<T, Parent>& described) {
  settable_parameter(described, "alpha", &Local::alpha, "The weight of the window.").in(kFinite);
  settable_parameter(described, "beta", &Local::beta, "The divisor's power.").in(kFinite);
  settable_parameter(described, "delta", &Local::delta, "The least divisor before its power.")
      .in(kFinite);
}
template <class T, class Parent>
void describe_local_window(DescribingNode<T, Parent>& described) {
  settable_parameter(described, "kernel_width", &Local::kernel_width, kInPixels).in(kOfWindow);
  settable_parameter(described, "kernel_height", &Local::kernel_height, kInPixels).in(kOfWindow);
}
template <class T, class Parent>
void describe_contrast(DescribingNode<T, Parent>& described) {
  settable_parameter(described, "p0", &Local::p0, "The share of the mean that is subtracted.")
      .in(kFinite);
  settable_parameter(described, "pm", &Local::pm, "Added to the result.").in(kFinite);
  settable_parameter(described, "ps", &Local::ps, "A factor of the result.").in(kFinite);
}

auto local_node(const NodeRow<Local>& row, const char* summary) {
  return forward_node<Local, ParameterNode<Local>>(
      row, summary, "Windows as wide as high.",
      {argument<std::int64_t>("kernel_size", 5, "The window's width and height.", &kOfWindow)},
      [row](const Given& given) {
        Local p = default_parameters(row);
        p.kernel_width = p.kernel_height = given.get<std::int64_t>("kernel_size");
        return p;
      });
}
template <class Use>
auto local_gradient(const NodeRow<Local>& row, const Arguments& rest, Use use) {
  return gradient_node(row, "The gradient kernel in a graph.", kOtherNumbers, rest, use)
      .one_of_several();
}

void describe_local_normalizations(Classes& classes) {
  const NodeRow<Local>(&rows)[3] = kLocalNormalizationNodes;
  DescribingNode<ParameterNode<Local>> base("MPSCNNNormalizationNode",
                                            "Divides by a window around each element.");
  describe_divisor(base);

  auto channels = local_node(rows[0], "MPSCNNCrossChannelNormalization in a graph.");
  settable_parameter(channels, "kernel_size_in_feature_channels", &Local::kernel_width,
                     "Channels of the window.")
      .in(kOfWindow);
  const Arguments size = {argument<std::int64_t>("kernel_size", "The forward node's.")};
  auto channels_gradient =
      local_gradient(rows[0], size, [](const LocalGradient& node, const Given& given) {
        expect(node, given, "kernel_size", node.parameters().kernel_width);
      });
  parameter(channels_gradient, "kernel_size", &Local::kernel_width, "Channels of the window.");

  auto spatial = local_node(rows[1], "MPSCNNSpatialNormalization in a graph.");
  describe_local_window(spatial);
  auto spatial_gradient =
      local_gradient(rows[1], size, [](const LocalGradient& node, const Given& given) {
        expect(node, given, "kernel_size", node.parameters().kernel_width);
        expect(node, given, "kernel_size", node.parameters().kernel_height);
      });
  describe_divisor(spatial_gradient);
  describe_local_window(spatial_gradient);

  auto contrast =
      local_node(rows[2], "MPSCNNLocalContrastNormalization in a graph; alpha begins with 1.");
  describe_local_window(contrast);
  describe_contrast(contrast);
  const Arguments sizes = {argument<std::int64_t>("kernel_width", "The forward node's."),
                           argument<std::int64_t>("kernel_height", "The forward node's.")};
  auto contrast_gradient =
      local_gradient(rows[2], sizes, [](const LocalGradient& node, const Given& given) {
        expect(node, given, "kernel_width", node.parameters().kernel_width);
        expect(node, given, "kernel_height", node.parameters().kernel_height);
      });
  describe_divisor(contrast_gradient);
  describe_local_window(contrast_gradient);
  describe_contrast(contrast_gradient);
  classes.insert(classes.end(), {base, channels, channels_gradient, spatial, spatial_gradient,
                                 contrast, contrast_gradient});
}

}  // namespace

void describe_window_nodes(Classes& classes) {
  describe_pooling_nodes(classes);
  describe_local_normalizations(classes);
}

}  // namespace traingraph::mps
