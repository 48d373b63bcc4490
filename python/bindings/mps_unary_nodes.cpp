#include "mps_encoding.h"
#include "mps_node_bindings.h"

namespace traingraph::python {
namespace {

using mps::LocalNormalization;
using mps::LocalNormalizationType;
using mps::NNFilterNode;
using mps::NNGradientFilterNode;
using mps::NNReduceAxis;
using mps::PairGradientNode;
using mps::PairNode;

constexpr const char* kWrongState =
    "Errors: the state of another kind of node, and other numbers than its own.";

// Numbers that Apple asks a gradient node for again.
template <typename Node, typename T>
void expect(const Node& node, const std::string& name, T wanted, T got) {
  if (wanted == got) return;
  throw InvalidArgument("[" + node.description() + "] expected " + name + " " +
                        std::string(py::str(py::cast(wanted))) + ", as " +
                        node.forward().description() + " has, but got " +
                        std::string(py::str(py::cast(got))));
}

template <typename Node_, typename Base, typename Parameters>
auto bind_pair_node(py::module_& module, const char* name, const std::string& form, const char* doc,
                    const char* detail, Parameters parameters) {
  auto cls = bind_node<Node_, Base>(module, name, doc);
  def_init(cls, {kNodeSource + form}, detail, [parameters](const Arguments& a) {
    return std::make_shared<Node_>(source_node(a), parameters(a));
  });
  return cls;
}

template <typename Node_, typename Check>
auto bind_pair_gradient(py::module_& module, const char* name, const std::string& form,
                        const char* doc, Check check) {
  auto cls = bind_node<Node_, NNGradientFilterNode>(module, name, doc);
  def_init(cls, {kNodeGradientForm + form}, kWrongState, [check](const Arguments& a) {
    auto node = make_gradient_node<Node_>(a);
    check(*node, a);
    return node;
  });
  return cls;
}

// --- local normalizations ------------------------------------------------------------------------

template <typename Class>
void def_divisor(Class& cls) {
  def_parameter_member(cls, "alpha", &LocalNormalization::alpha, "The weight of the window.");
  def_parameter_member(cls, "beta", &LocalNormalization::beta, "The divisor's power.");
  def_parameter_member(cls, "delta", &LocalNormalization::delta,
                       "The least divisor before its power.");
}
template <typename Class>
void def_node_window(Class& cls) {
  def_parameter_member(cls, "kernel_width", &LocalNormalization::kernel_width, "In pixels.");
  def_parameter_member(cls, "kernel_height", &LocalNormalization::kernel_height, "In pixels.");
}
template <typename Class>
void def_contrast(Class& cls) {
  def_parameter_member(cls, "p0", &LocalNormalization::p0, "How much of the mean is taken away.");
  def_parameter_member(cls, "pm", &LocalNormalization::pm, "Added to the result.");
  def_parameter_member(cls, "ps", &LocalNormalization::ps, "A factor of the result.");
}

template <LocalNormalizationType kType>
auto bind_local_node(py::module_& module, const char* doc) {
  using Forms = mps::LocalNormalizationPair<kType>;
  return bind_pair_node<PairNode<Forms>, mps::CNNNormalizationNode>(
      module, Forms::kForward, ", kernel_size: int = 5", doc, "Windows as wide as high.",
      [](const Arguments& a) {
        LocalNormalization p = Forms::defaults();
        p.kernel_width = p.kernel_height = a.get<std::int64_t>("kernel_size");
        return p;
      });
}

void bind_local_nodes(py::module_& module) {
  auto base = bind_node<mps::CNNNormalizationNode, NNFilterNode>(
      module, "MPSCNNNormalizationNode", "Divides by a window around each element.");
  def_divisor(base);
  auto channels = bind_local_node<LocalNormalizationType::kCrossChannel>(
      module, "MPSCNNCrossChannelNormalization in a graph.");
  def_parameter_member(channels, "kernel_size_in_feature_channels",
                       &LocalNormalization::kernel_width, "Channels of the window.");
  auto channels_gradient = bind_pair_gradient<mps::CNNCrossChannelNormalizationGradientNode>(
      module, "MPSCNNCrossChannelNormalizationGradientNode", ", kernel_size: int",
      "The gradient kernel in a graph.", [](const auto& node, const Arguments& a) {
        expect(node, "kernel_size", node.parameters().kernel_width,
               a.get<std::int64_t>("kernel_size"));
      });
  def_parameter(
      channels_gradient, "kernel_size", [](const LocalNormalization& p) { return p.kernel_width; },
      "Channels of the window.");
  auto spatial = bind_local_node<LocalNormalizationType::kSpatial>(
      module, "MPSCNNSpatialNormalization in a graph.");
  def_node_window(spatial);
  auto spatial_gradient = bind_pair_gradient<mps::CNNSpatialNormalizationGradientNode>(
      module, "MPSCNNSpatialNormalizationGradientNode", ", kernel_size: int",
      "The gradient kernel in a graph.", [](const auto& node, const Arguments& a) {
        const auto size = a.get<std::int64_t>("kernel_size");
        expect(node, "kernel_size", node.parameters().kernel_width, size);
        expect(node, "kernel_size", node.parameters().kernel_height, size);
      });
  def_divisor(spatial_gradient);
  def_node_window(spatial_gradient);
  auto contrast = bind_local_node<LocalNormalizationType::kLocalContrast>(
      module, "MPSCNNLocalContrastNormalization in a graph; alpha begins with 1.");
  def_node_window(contrast);
  def_contrast(contrast);
  auto contrast_gradient = bind_pair_gradient<mps::CNNLocalContrastNormalizationGradientNode>(
      module, "MPSCNNLocalContrastNormalizationGradientNode",
      ", kernel_width: int, kernel_height: int", "The gradient kernel in a graph.",
      [](const auto& node, const Arguments& a) {
        expect(node, "kernel_width", node.parameters().kernel_width,
               a.get<std::int64_t>("kernel_width"));
        expect(node, "kernel_height", node.parameters().kernel_height,
               a.get<std::int64_t>("kernel_height"));
      });
  def_divisor(contrast_gradient);
  def_node_window(contrast_gradient);
  def_contrast(contrast_gradient);
}

// --- upsampling ----------------------------------------------------------------------------------

template <typename Class>
void def_node_scales(Class& cls) {
  def_parameter(
      cls, "scale_factor_x",
      [](const mps::Upsampling& p) { return static_cast<double>(p.scale_x); },
      "Result columns per source column.");
  def_parameter(
      cls, "scale_factor_y",
      [](const mps::Upsampling& p) { return static_cast<double>(p.scale_y); },
      "Result rows per source row.");
}

template <bool kBilinear>
void bind_upsampling_nodes(py::module_& module, const char* doc) {
  using Forms = mps::UpsamplingPair<kBilinear>;
  const std::string corners = kBilinear ? ", align_corners: bool = False" : "";
  auto forward = bind_pair_node<PairNode<Forms>, NNFilterNode>(
      module, Forms::kForward,
      ", integer_scale_factor_x: int, integer_scale_factor_y: int" + corners, doc,
      "Whole factors of 1 or more.", [](const Arguments& a) {
        mps::Upsampling p = Forms::defaults();
        p.scale_x = a.get<std::int64_t>("integer_scale_factor_x");
        p.scale_y = a.get<std::int64_t>("integer_scale_factor_y");
        p.align_corners = kBilinear && a.get<bool>("align_corners");
        return p;
      });
  def_node_scales(forward);
  if constexpr (kBilinear) {
    def_parameter(
        forward, "align_corners", [](const mps::Upsampling& p) { return p.align_corners; },
        "Whether first and last pixels of source and result coincide.");
  }
  auto gradient = bind_pair_gradient<PairGradientNode<Forms>>(
      module, Forms::kGradient, ", scale_factor_x: float, scale_factor_y: float",
      "The gradient kernel in a graph.", [](const auto& node, const Arguments& a) {
        expect(node, "scale_factor_x", static_cast<double>(node.parameters().scale_x),
               a.get<double>("scale_factor_x"));
        expect(node, "scale_factor_y", static_cast<double>(node.parameters().scale_y),
               a.get<double>("scale_factor_y"));
      });
  def_node_scales(gradient);
}

// --- dropout -------------------------------------------------------------------------------------

mps::DropoutParameters dropout_of(const Arguments& a) {
  mps::DropoutParameters p;
  p.keep_probability = a.get<float>("keep_probability");
  p.seed = a.get<std::uint64_t>("seed");
  const auto strides =
      convert_list<std::int64_t>(a["mask_stride_in_pixels"], a.where("mask_stride_in_pixels"));
  if (strides.size() != 3) refuse(a.where("mask_stride_in_pixels"), a["mask_stride_in_pixels"]);
  p.mask_stride_x = strides[0];
  p.mask_stride_y = strides[1];
  p.mask_stride_channels = strides[2];
  return p;
}
auto strides_of(const mps::DropoutParameters& p) {
  return std::tuple(p.mask_stride_x, p.mask_stride_y, p.mask_stride_channels);
}

template <typename Class>
void def_dropout(Class& cls) {
  using P = mps::DropoutParameters;
  def_parameter(
      cls, "keep_probability", [](const P& p) { return p.keep_probability; },
      "Above 0 and below 1.");
  def_parameter(cls, "seed", [](const P& p) { return p.seed; }, "Of the masks.");
  def_parameter(
      cls, "mask_stride_in_pixels", [](const P& p) { return strides_of(p); },
      "(width, height, depth): 1, or 0: one decision for all elements along the axis.");
}

void bind_dropout_nodes(py::module_& module) {
  auto forward = bind_pair_node<mps::CNNDropoutNode, NNFilterNode>(
      module, "MPSCNNDropoutNode",
      ", keep_probability: float = 0.5, seed: int = 0, mask_stride_in_pixels: tuple[int, int, int] "
      "= (1, 1, 1)",
      "MPSCNNDropout in a graph.", "Each encoding has another mask.", dropout_of);
  def_dropout(forward);
  auto gradient = bind_pair_gradient<mps::CNNDropoutGradientNode>(
      module, "MPSCNNDropoutGradientNode",
      ", keep_probability: float, seed: int, mask_stride_in_pixels: tuple[int, int, int]",
      "dy where the mask of the forward node keeps, / keep_probability.",
      [](const auto& node, const Arguments& a) {
        const mps::DropoutParameters wanted = node.parameters(), got = dropout_of(a);
        expect(node, "keep_probability", wanted.keep_probability, got.keep_probability);
        expect(node, "seed", wanted.seed, got.seed);
        expect(node, "mask_stride_in_pixels", strides_of(wanted), strides_of(got));
      });
  def_dropout(gradient);
}

// --- reshape, padding, Gram matrix ---------------------------------------------------------------

mps::Offset coordinate(const Arguments& a, const char* name) {
  const auto numbers = convert_list<std::int64_t>(a[name], a.where(name));
  if (numbers.size() != 3) refuse(a.where(name), a[name]);
  return {numbers[0], numbers[1], numbers[2]};
}

void bind_rearrangement_nodes(py::module_& module) {
  bind_pair_node<mps::NNReshapeNode, NNFilterNode>(
      module, "MPSNNReshapeNode",
      ", result_width: int, result_height: int, result_feature_channels: int",
      "The same elements as an image of another size.",
      "Elements are counted by channels, then rows, then columns.", [](const Arguments& a) {
        return mps::ReshapeParameters{a.get<std::int64_t>("result_width"),
                                      a.get<std::int64_t>("result_height"),
                                      a.get<std::int64_t>("result_feature_channels")};
      });
  bind_gradient_node<mps::NNReshapeGradientNode>(module, "MPSNNReshapeGradientNode",
                                                 "The gradient in the source's size.");
  auto pad = bind_pair_node<mps::NNPadNode, NNFilterNode>(
      module, "MPSNNPadNode",
      ", padding_size_before: tuple[int, int, int], padding_size_after: tuple[int, int, int], "
      "edge_mode: MPSImageEdgeMode | str",
      "Pixels and channels around an image, by edge mode.", "Sizes (x, y, channel).",
      [](const Arguments& a) {
        mps::PadParameters p;
        p.before = coordinate(a, "padding_size_before");
        p.after = coordinate(a, "padding_size_after");
        p.edge_mode = a.get<mps::EdgeMode>("edge_mode");
        return p;
      });
  def_parameter_member(pad, "fill_value", &mps::PadParameters::fill_value,
                       "Of edge mode CONSTANT.");
  bind_gradient_node<mps::NNPadGradientNode>(
      module, "MPSNNPadGradientNode",
      "The image's part; a copied margin's part is added to where it was copied from.");
}

void bind_gram_nodes(py::module_& module) {
  using Gram = mps::NNGramMatrixCalculationNode;
  const auto alpha = [](const mps::GramMatrixParameters& p) { return p.alpha; };
  auto forward = bind_pair_node<Gram, NNFilterNode>(
      module, "MPSNNGramMatrixCalculationNode", ", alpha: float = 1.0",
      "Products of all pairs of channels, summed over the pixels.",
      "Shapes: (N, C, H, W) to (N, C, 1, C).",
      [](const Arguments& a) { return mps::GramMatrixParameters{a.get<float>("alpha"), {}}; });
  def_parameter(forward, "alpha", alpha, "A factor of the result.");
  forward.def_property(
      "property_call_back",
      [](const Gram& self) { return from_number_callback(self.parameters.property_callback); },
      [](Gram& self, const py::object& value) {
        set_number_callback(self.parameters.property_callback, value,
                            {"MPSNNGramMatrixCalculationNode", "property_call_back",
                             "an object with alpha(for_source_image, destination_image), or None"},
                            "alpha");
      },
      "Gives alpha at each encoding; another one than before compiles anew.");
  using Gradient = mps::NNGramMatrixCalculationGradientNode;
  auto gradient = bind_node<Gradient, NNGradientFilterNode>(
      module, "MPSNNGramMatrixCalculationGradientNode", "The gradient; alpha comes by the state.");
  def_init(gradient, {kNodeGradientForm, kNodeGradientForm + ", alpha: float"}, kWrongState,
           [](const Arguments& a) {
             auto node = make_gradient_node<Gradient>(a);
             if (a.given("alpha")) {
               expect(*node, "alpha", node->parameters().alpha, a.get<float>("alpha"));
             }
             return node;
           });
  def_parameter(gradient, "alpha", alpha, "A factor of the result.");
}

// --- reductions ----------------------------------------------------------------------------------

template <typename Node_>
auto bind_reduction(py::module_& module, const char* name, const char* doc) {
  return bind_pair_node<Node_, mps::NNUnaryReductionNode>(
      module, name, "", doc, "The reduced axes stay, with one element.",
      [](const Arguments&) { return mps::ReductionParameters{}; });
}

template <NNReduceAxis kAxis, mps::NNReduction kReduction>
auto bind_reduction_along(py::module_& module, const std::string& doc) {
  using Pair = mps::ReductionPair<kAxis, kReduction>;
  return bind_reduction<PairNode<Pair>>(module, Pair::kForward, doc.c_str());
}

template <NNReduceAxis kAxis>
void bind_reductions_along(py::module_& module, const std::string& axis) {
  using mps::NNReduction;
  auto sum = bind_reduction_along<kAxis, NNReduction::kSum>(module, "The sum over " + axis + ".");
  bind_reduction_along<kAxis, NNReduction::kMean>(module, "The mean over " + axis + ".");
  bind_reduction_along<kAxis, NNReduction::kMin>(module, "The least of " + axis + ".");
  bind_reduction_along<kAxis, NNReduction::kMax>(module, "The largest of " + axis + ".");
  if constexpr (kAxis == NNReduceAxis::kFeatureChannels) {
    def_parameter_member(sum, "weight", &mps::ReductionParameters::weight,
                         "A factor of the result.");
    bind_reduction_along<kAxis, NNReduction::kArgumentMin>(
        module, "The number of the first least of " + axis + ".");
    bind_reduction_along<kAxis, NNReduction::kArgumentMax>(
        module, "The number of the first largest of " + axis + ".");
  }
}

void bind_reduction_nodes(py::module_& module) {
  using Base = mps::NNUnaryReductionNode;
  auto base = bind_node<Base, NNFilterNode>(
      module, "MPSNNUnaryReductionNode",
      "Joins the elements along an axis; only MPSNNReductionSpatialMeanNode has a gradient.");
  def_region(
      base, "clip_rect_source", [](const Base& self) { return self.parameters.clip_rect_source; },
      [](Base& self, const mps::Region& value) { self.parameters.clip_rect_source = value; },
      kSourceRectangle);
  bind_reductions_along<NNReduceAxis::kRow>(module, "the columns of each row");
  bind_reductions_along<NNReduceAxis::kColumn>(module, "the rows of each column");
  bind_reductions_along<NNReduceAxis::kFeatureChannels>(module, "the channels of each pixel");
  bind_reduction<mps::NNReductionSpatialMeanNode>(module, "MPSNNReductionSpatialMeanNode",
                                                  "The mean over the pixels of each channel.");
  bind_gradient_node<mps::NNReductionSpatialMeanGradientNode>(
      module, "MPSNNReductionSpatialMeanGradientNode", "dy / (rows columns), at each pixel.");
}

// --- scaling -------------------------------------------------------------------------------------

void bind_scale_nodes(py::module_& module) {
  bind_node<mps::NNScaleNode, NNFilterNode>(module, "MPSNNScaleNode",
                                            "An image of another size; there is no gradient.");
  auto cls = bind_node<mps::NNBilinearScaleNode, mps::NNScaleNode>(
      module, "MPSNNBilinearScaleNode",
      "MPSNNResizeBilinear in a graph, with corners not aligned.");
  const std::string size = "output_size: tuple[int, int] | tuple[int, int, int]";
  def_init(cls, {kNodeSource + ", " + size, kNodeSource + ", transform_provider: None, " + size},
           "Shapes: (N, C, H, W) to (N, C, height, width). Errors: a transform, which this version "
           "has none of.",
           [](const Arguments& a) {
             if (a.given("transform_provider") && !a["transform_provider"].is_none()) {
               throw Unsupported(
                   "[MPSNNBilinearScaleNode] a transform provider: this version scales the whole "
                   "image");
             }
             const mps::Offset size =
                 to_offset(a["output_size"], "MPSNNBilinearScaleNode.output_size");
             return std::make_shared<mps::NNBilinearScaleNode>(
                 source_node(a), mps::ScaleParameters{size.x, size.y});
           });
}

}  // namespace

void bind_mps_unary_nodes(py::module_& module) {
  bind_local_nodes(module);
  bind_upsampling_nodes<false>(module, "Every pixel as a block.");
  bind_upsampling_nodes<true>(module, "Pixels between their neighbours.");
  bind_dropout_nodes(module);
  bind_rearrangement_nodes(module);
  bind_gram_nodes(module);
  bind_reduction_nodes(module);
  bind_scale_nodes(module);
}

}  // namespace traingraph::python
