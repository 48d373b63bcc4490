// The pooling layer: maximum, average or L2 norm over a moving window.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/pooling.h>

#include "layers/checks.h"
#include "layers/description/describe_window.h"
#include "layers/window.h"

namespace traingraph {
namespace {

ir::PoolingKind kind_of(PoolingType type) {
  switch (type) {
    case PoolingType::kMax:
      return ir::PoolingKind::max;
    case PoolingType::kAverage:
      return ir::PoolingKind::average;
    case PoolingType::kL2Norm:
      return ir::PoolingKind::l2_norm;
  }
  throw InvalidArgument("[Pooling] expected a pooling type but got " +
                        std::to_string(static_cast<int>(type)));
}

const char* name_of(PoolingType type) {
  switch (type) {
    case PoolingType::kMax:
      return "max";
    case PoolingType::kAverage:
      return "average";
    case PoolingType::kL2Norm:
      return "L2 norm";
  }
  return "unknown";
}

// With the strides that it means.
PoolingDescriptor complete(PoolingDescriptor d) {
  if (d.stride_y == 0) d.stride_y = d.kernel_height;
  if (d.stride_x == 0) d.stride_x = d.kernel_width;
  return d;
}

}  // namespace

Pooling::Pooling(PoolingDescriptor descriptor)
    : Layer("Pooling"), descriptor_(complete(descriptor)) {
  kind_of(descriptor_.type);
  check_window(window_of(descriptor_), "Pooling");
}

std::string Pooling::description() const {
  std::string text =
      "Pooling " + std::string(name_of(descriptor_.type)) + " " + to_string(window_of(descriptor_));
  if (descriptor_.type == PoolingType::kAverage && descriptor_.count_includes_padding) {
    text += " counting padding";
  }
  return text;
}

// x (N, C, H, W) → y (N, C, P, Q)
void Pooling::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  const Shape& shape = e.type(0).shape;
  if (shape.size() != 4) {
    e.fail_shape("expected a source (N, C, H, W) but got " + to_string(shape));
  }
  ir::PoolingAttributes attributes;
  attributes.kind = kind_of(descriptor_.type);
  attributes.window = resolve_window(window_of(descriptor_), shape[2], shape[3]);
  // Kept off elsewhere, so that equal windows have equal attributes.
  attributes.count_includes_padding =
      attributes.kind == ir::PoolingKind::average && descriptor_.count_includes_padding;
  attributes.with_index = attributes.kind == ir::PoolingKind::max && e.training();
  e.result(ops::apply1(e.graph, ir::Op::pooling, std::move(attributes), {e.sources[0]}));
}

namespace {

ClassDescription described_pooling_descriptor() {
  using D = PoolingDescriptor;
  Describing<D> described("MLCPoolingDescriptor",
                          "The function, window and strides of a pooling layer.");
  described.property("pooling_type", &D::type, "The function.");
  describe_window(described);
  described
      .property("count_includes_padding", &D::count_includes_padding,
                "Whether an average divides by padded elements too.")
      .form({argument<PoolingType>("type", "The function."),
             argument<Pair>("kernel_sizes", "(height, width).", &kOfWindow),
             optional_argument<Pair>("strides", "(y, x); None: those of the kernel.", &kOfWindow),
             dilation_argument(), padding_argument(),
             argument("count_includes_padding", false,
                      "Whether an average divides by padded elements too.")},
            [](const Given& given) {
              D d;
              d.type = given.get<PoolingType>("type");
              set_window(d, given);
              const auto kernel = given.get<Pair>("kernel_sizes");
              const auto strides = given.get_optional<Pair>("strides").value_or(kernel);
              // Given by number, 0 is none.
              WindowDescription window = window_of(d);
              window.stride[0] = d.stride_y = strides.y;
              window.stride[1] = d.stride_x = strides.x;
              if (strides.y < 1 || strides.x < 1) check_window(window, "Pooling");
              d.count_includes_padding = given.get<bool>("count_includes_padding");
              return d;
            })
      .text("Pairs are (height, width) and (y, x); count_includes_padding concerns AVERAGE.");
  return described;
}

}  // namespace

const ClassDescription& PoolingDescriptor::class_description() {
  static const ClassDescription description = described_pooling_descriptor();
  return description;
}

const ClassDescription& Pooling::class_description() {
  static const ClassDescription description =
      Describing<Pooling, Layer>("MLCPoolingLayer", "Joins the elements of each window.")
          .argument("descriptor", &Pooling::descriptor, "The function, window and strides.")
          .made_of<PoolingDescriptor>(
              "Shapes: (N, C, H, W) to (N, C, P, Q). Gradient: MAX gives it to the first largest "
              "element; L2_NORM gives 0 where the result is 0. Errors: ValueError for sizes "
              "outside "
              "their ranges, and for a window larger than the padded source.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Pooling>(PoolingDescriptor{}), {{{1, 1, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
