// Nodes with one source whose kernels follow from a few parameters, but for those of windows.
#include "mps/description/describe_unary_nodes.h"

namespace traingraph::mps {
namespace {

void describe_softmax(Classes& classes) {
  for (const NodeRow<SoftMaxParameters>& row : kSoftMaxNodes) {
    auto forward = forward_node(row, "Over the channels of each pixel.", "Shapes: any to the same.",
                                {}, [](const Given&) { return SoftMaxParameters{}; });
    auto gradient = gradient_node(row, "The source image is the forward node's result.");
    classes.insert(classes.end(), {forward.one_of_several(), gradient.one_of_several()});
  }
}

// --- upsampling and dropout ----------------------------------------------------------------------

template <class T, class Parent>
void describe_scales(DescribingNode<T, Parent>& described) {
  parameter(
      described, "scale_factor_x",
      [](const Upsampling& p) { return static_cast<double>(p.scale_x); },
      "Result columns per source column.");
  parameter(
      described, "scale_factor_y",
      [](const Upsampling& p) { return static_cast<double>(p.scale_y); },
      "Result rows per source row.");
}

void describe_upsampling(Classes& classes, const NodeRow<Upsampling>& row, const char* summary) {
  constexpr const char* kCorners = "Whether first and last pixels of source and result coincide.";
  Arguments scales = {
      argument<std::int64_t>("integer_scale_factor_x", "Columns per column.", &kOneOrMore),
      argument<std::int64_t>("integer_scale_factor_y", "Rows per row.", &kOneOrMore)};
  const bool bilinear = row.which != 0;
  if (bilinear) scales.push_back(argument<bool>("align_corners", false, kCorners));
  auto forward = forward_node(row, summary, "Whole factors of 1 or more.", scales,
                              [bilinear](const Given& given) {
                                Upsampling p;
                                p.bilinear = bilinear;
                                p.scale_x = given.get<std::int64_t>("integer_scale_factor_x");
                                p.scale_y = given.get<std::int64_t>("integer_scale_factor_y");
                                p.align_corners = bilinear && given.get<bool>("align_corners");
                                return p;
                              });
  describe_scales(forward);
  if (bilinear) parameter(forward, "align_corners", &Upsampling::align_corners, kCorners);
  using Gradient = ParameterGradientNode<Upsampling>;
  auto gradient = gradient_node(
      row, "The gradient kernel in a graph.", kOtherNumbers,
      {argument<double>("scale_factor_x", "The forward node's."),
       argument<double>("scale_factor_y", "The forward node's.")},
      [](const Gradient& node, const Given& given) {
        expect(node, given, "scale_factor_x", static_cast<double>(node.parameters().scale_x));
        expect(node, given, "scale_factor_y", static_cast<double>(node.parameters().scale_y));
      });
  describe_scales(gradient);
  classes.insert(classes.end(), {forward.one_of_several(), gradient.one_of_several()});
}

Coordinate strides_of(const DropoutParameters& p) {
  return {p.mask_stride_x, p.mask_stride_y, p.mask_stride_channels};
}

template <class T, class Parent>
void describe_dropout(DescribingNode<T, Parent>& described) {
  parameter(described, "keep_probability", &DropoutParameters::keep_probability,
            "The share of elements that is kept.")
      .in(kProbability);
  parameter(described, "seed", &DropoutParameters::seed, "The seed of the masks.");
  parameter(described, "mask_stride_in_pixels", strides_of,
            "(width, height, depth); 0: one decision for all elements along the axis.")
      .in(kZeroOrOne);
}

void describe_dropout_nodes(Classes& classes) {
  const NodeRow<DropoutParameters>& row = kDropoutNodes[0];
  auto forward = forward_node(
      row, "MPSCNNDropout in a graph.", "Each encoding has another mask.",
      {argument("keep_probability", 0.5f, "The share of elements that is kept.", &kProbability),
       argument("seed", std::uint64_t{0}, "The seed of the masks."),
       argument("mask_stride_in_pixels", Coordinate{1, 1, 1},
                "(width, height, depth); 0: one decision for all elements along the axis.",
                &kZeroOrOne)},
      [](const Given& given) {
        const auto strides = given.get<Coordinate>("mask_stride_in_pixels");
        return DropoutParameters{given.get<float>("keep_probability"),
                                 given.get<std::uint64_t>("seed"), strides.x, strides.y,
                                 strides.channel};
      });
  describe_dropout(forward);
  using Gradient = ParameterGradientNode<DropoutParameters>;
  auto gradient = gradient_node(
      row, "dy where the mask of the forward node keeps, / keep_probability.", kOtherNumbers,
      {argument<float>("keep_probability", "The forward node's."),
       argument<std::uint64_t>("seed", "The forward node's."),
       argument<Coordinate>("mask_stride_in_pixels", "The forward node's.")},
      [](const Gradient& node, const Given& given) {
        expect(node, given, "keep_probability", node.parameters().keep_probability);
        expect(node, given, "seed", node.parameters().seed);
        expect(node, given, "mask_stride_in_pixels", strides_of(node.parameters()));
      });
  describe_dropout(gradient);
  classes.insert(classes.end(), {forward, gradient});
}

// --- reshape, padding, Gram matrix ---------------------------------------------------------------

void describe_rearrangements(Classes& classes) {
  classes.push_back(forward_node(
      kReshapeNodes[0], "The same elements as an image of another size.",
      "Elements are counted by channels, then rows, then columns.",
      {argument<std::int64_t>("result_width", "In pixels.", &kOneOrMore),
       argument<std::int64_t>("result_height", "In pixels.", &kOneOrMore),
       argument<std::int64_t>("result_feature_channels", "Channels of the result.", &kOneOrMore)},
      [](const Given& given) {
        return ReshapeParameters{given.get<std::int64_t>("result_width"),
                                 given.get<std::int64_t>("result_height"),
                                 given.get<std::int64_t>("result_feature_channels")};
      }));
  classes.push_back(gradient_node(kReshapeNodes[0], "The gradient in the source's size."));
  auto pad = forward_node(
      kPadNodes[0], "Pixels and channels around an image, by edge mode.", "Sizes (x, y, channel).",
      {argument<Coordinate>("padding_size_before", "Before the first element of each axis.",
                            &kLimit),
       argument<Coordinate>("padding_size_after", "After the last element of each axis.", &kLimit),
       argument<EdgeMode>("edge_mode", "The pixels outside of the source.")},
      [](const Given& given) {
        const auto before = given.get<Coordinate>("padding_size_before");
        const auto after = given.get<Coordinate>("padding_size_after");
        return PadParameters{{before.x, before.y, before.channel},
                             {after.x, after.y, after.channel},
                             given.get<EdgeMode>("edge_mode")};
      });
  settable_parameter(pad, "fill_value", &PadParameters::fill_value, "Of edge mode CONSTANT.");
  classes.push_back(pad);
  classes.push_back(gradient_node(
      kPadNodes[0],
      "The image's part; a copied margin's part is added to where it was copied from."));
}

void describe_gram_matrices(Classes& classes) {
  const NodeRow<GramMatrixParameters>& row = kGramMatrixNodes[0];
  constexpr const char* kAlpha = "A factor of the result.";
  auto forward = forward_node(
      row, "Products of all pairs of channels, summed over the pixels.",
      "Shapes: (N, C, H, W) to (N, C, 1, C).", {argument("alpha", 1.0f, kAlpha)},
      [](const Given& given) { return GramMatrixParameters{given.get<float>("alpha"), {}}; });
  parameter(forward, "alpha", &GramMatrixParameters::alpha, kAlpha);
  auto gradient = gradient_node(row, "The gradient; alpha comes by the state.");
  Arguments all = gradient_arguments();
  all.push_back(argument<float>("alpha", "The forward node's."));
  gradient.text(kOtherNumbers).form(all, [](const Given& given) {
    const auto node = make_gradient(row, given);
    expect(*node, given, "alpha", node->parameters().alpha);
    return node;
  });
  parameter(gradient, "alpha", &GramMatrixParameters::alpha, kAlpha);
  classes.insert(classes.end(), {forward, gradient});
}

// --- reductions and scaling ----------------------------------------------------------------------

// By the row's number.
std::string reduction(int which) {
  if (which == kSpatialMean) return "The mean over the pixels of each channel.";
  constexpr const char* kWhat[kReductions] = {"The sum over ",
                                              "The mean over ",
                                              "The least of ",
                                              "The largest of ",
                                              "The number of the first least of ",
                                              "The number of the first largest of "};
  constexpr const char* kWhere[] = {"the columns of each row.", "the rows of each column.",
                                    "the channels of each pixel."};
  return std::string(kWhat[which % kReductions]) + kWhere[which / kReductions];
}

void describe_reduction_nodes(Classes& classes) {
  using Node = ParameterNode<ReductionParameters>;
  DescribingNode<Node> base(
      "MPSNNUnaryReductionNode",
      "Joins the elements along an axis; only MPSNNReductionSpatialMeanNode has a gradient.");
  settable_parameter(base, "clip_rect_source", &ReductionParameters::clip_rect_source,
                     "MTLRegion of the source that is read, as far as it is there.");
  classes.push_back(base);
  constexpr int kSumOfChannels = kReductions * static_cast<int>(NNReduceAxis::kFeatureChannels);
  for (const NodeRow<ReductionParameters>& row : kReductionNodes) {
    auto described = forward_node<ReductionParameters, Node>(
        row, reduction(row.which), "The reduced axes stay, with one element.", {},
        [](const Given&) { return ReductionParameters{}; });
    if (row.which == kSumOfChannels) {
      settable_parameter(described, "weight", &ReductionParameters::weight,
                         "A factor of the result.");
    }
    classes.push_back(described);
    if (row.gradient != nullptr) {
      classes.push_back(gradient_node(row, "dy / (rows columns), at each pixel."));
    }
  }
}

void describe_scale_nodes(Classes& classes) {
  using Node = ParameterNode<ScaleParameters>;
  const Argument size =
      argument<Offset>("output_size", "(width, height), or MTLSize.", &kOneOrMore);
  const auto scale = [](const Given& given) {
    const auto size = given.get<Offset>("output_size");
    return ScaleParameters{size.x, size.y};
  };
  classes.push_back(
      DescribingNode<Node>("MPSNNScaleNode", "An image of another size; there is no gradient."));
  classes.push_back(
      forward_node<ScaleParameters, Node>(
          kScaleNodes[0], "MPSNNResizeBilinear in a graph, with corners not aligned.",
          "Shapes: (N, C, H, W) to (N, C, height, width). Errors: a transform, which this version "
          "has none of.",
          {size}, scale)
          .form(
              {source_argument(),
               argument<TransformProvider>("transform_provider", "None: no other is taken."), size},
              [scale](const Given& given) {
                if (given.get<TransformProvider>("transform_provider").is_given) {
                  throw Unsupported("[" + std::string(kScaleNodes[0].name) +
                                    "] a transform provider: this version scales the whole "
                                    "image");
                }
                return std::make_shared<Node>(kScaleNodes[0], given.get<NNImageNodePtr>("source"),
                                              scale(given));
              }));
}

}  // namespace

void describe_unary_nodes(Classes& classes) {
  describe_softmax(classes);
  describe_upsampling(classes, kUpsamplingNodes[0], "Every pixel as a block.");
  describe_upsampling(classes, kUpsamplingNodes[1], "Pixels between their neighbours.");
  describe_dropout_nodes(classes);
  describe_rearrangements(classes);
  describe_gram_matrices(classes);
  describe_reduction_nodes(classes);
  describe_scale_nodes(classes);
}

}  // namespace traingraph::mps
