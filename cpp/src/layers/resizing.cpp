// The layers Slice, Pad and Upsample: their checks and ops.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/resizing.h>

#include <algorithm>
#include <cmath>

#include "ir/extents.h"
#include "ir/number_text.h"
#include "layers/checks.h"
#include "layers/margins.h"

namespace traingraph {

namespace {

// Raises InvalidArgument for an axis whose elements are picked one by one and are too many.
void expect_places(const Emitter& e, std::int64_t count) {
  if (count <= kMostPlaces) return;
  e.fail_argument("expected at most " + std::to_string(kMostPlaces) +
                  " elements along an axis but got " + std::to_string(count));
}

// A result is a value of its own also where nothing was done: its gradient is not its source's, to
// which others add theirs.
void give(Emitter& e, ir::ValueId x) {
  if (x != e.sources[0]) return e.result(x);
  const ir::Type type = e.type(0);
  e.result(
      ops::apply1(e.graph, ir::Op::reshape, ir::ReshapeAttributes{type.shape, type.batched}, {x}));
}

}  // namespace

// --- slice ---------------------------------------------------------------------------------------

Slice::Slice(Shape start, Shape end, Shape stride)
    : Layer("Slice"), start_(std::move(start)), end_(std::move(end)), stride_(std::move(stride)) {
  const std::size_t rank = start_.size();
  bool valid = rank > 0 && end_.size() == rank && (stride_.empty() || stride_.size() == rank);
  for (std::size_t k = 0; valid && k < rank; ++k) {
    valid = start_[k] >= 0 && end_[k] > start_[k] && (stride_.empty() || stride_[k] >= 1);
  }
  if (valid) return;
  throw InvalidArgument(
      "[Slice] expected as many starts of at least 0, ends behind them and strides of at least 1 "
      "but got " +
      to_string(start_) + ", " + to_string(end_) + " and " +
      (stride_.empty() ? "no strides" : to_string(stride_)));
}

std::string Slice::description() const {
  return "Slice " + to_string(start_) + " to " + to_string(end_) +
         (stride_.empty() ? "" : " stride " + to_string(stride_));
}

// x (…) → (…), ceil((end - start) / stride) elements along each axis.
void Slice::emit(Emitter& e) const {
  e.expect_sources(1);
  const ir::Type type = e.type(0);
  Shape declared = type.shape;
  if (type.batched) declared[0] = e.lowering.declared_batch;
  bool fits = declared.size() == start_.size();
  for (std::size_t k = 0; fits && k < declared.size(); ++k) fits = end_[k] <= declared[k];
  if (!fits) {
    e.fail_shape("expected one end for each axis of " + to_string(declared) +
                 ", and none beyond it, but got " + to_string(end_));
  }
  ir::ValueId x = e.sources[0];
  for (std::size_t k = 0; k < declared.size(); ++k) {
    const std::int64_t step = stride_.empty() ? 1 : stride_[k];
    const std::int64_t count = (end_[k] - start_[k] - 1) / step + 1;
    const int axis = static_cast<int>(k);
    if (count == declared[k]) continue;
    if (step == 1 || count == 1) {
      x = ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{axis, start_[k], count}, {x});
      continue;
    }
    expect_places(e, count);
    std::vector<double> places;
    for (std::int64_t at = start_[k]; at < end_[k]; at += step) {
      places.push_back(static_cast<double>(at));
    }
    x = picked(e.graph, x, axis, std::move(places));
  }
  give(e, x);
}

const ClassDescription& Slice::class_description() {
  static const ClassDescription description =
      Describing<Slice, Layer>("MLCSliceLayer", "A part of a tensor.")
          .argument("start", &Slice::start, "The first element along each axis.")
          .in(kLimit)
          .argument("end", &Slice::end, "The element behind the last one along each axis.")
          .in(kOneOrMore)
          .property(
              "stride",
              [](const Slice& self) {
                return self.stride().empty() ? std::nullopt : std::optional(self.stride());
              },
              "Distances of the elements; None: 1.")
          .takes({optional_argument<Shape>("stride", "Distances of the elements; None: 1.",
                                           &kOneOrMore)})
          .made_by(
              "Shapes: any (…) to ceil((end - start) / stride) elements along each axis; all lists "
              "have one entry per axis. All of axis 0 keeps the batch. Types: any, bit for bit. "
              "Gradient: dy at the same places, zeros elsewhere. Errors: ValueError for a negative "
              "start, an end that is not behind it or beyond the source, and strides below 1. "
              "Source: developer.apple.com/documentation/mlcompute/mlcslicelayer.",
              [](const Given& given) {
                return std::make_shared<Slice>(given.get<Shape>("start"), given.get<Shape>("end"),
                                               given.get<Shape>("stride"));
              })
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Slice>(Shape{0, 0}, Shape{2, 3}, Shape{1, 2}),
                               {{{2, 3}, t}}};
          });
  return description;
}

// --- padding -------------------------------------------------------------------------------------

namespace {

constexpr const char* kPaddingNames[] = {"Zero", "Reflect", "Symmetric", "Constant"};

// Whether the number is one of the type.
bool holds(DataType type, float number) {
  if (is_floating_point(type)) return true;
  if (!(std::floor(number) == number)) return false;
  if (type == DataType::kBoolean) return number == 0 || number == 1;
  if (type == DataType::kUInt8) return number >= 0 && number < 256;
  const int bits = 8 * static_cast<int>(element_bytes(type)) - 1;
  return number >= -std::ldexp(1.0f, bits) && number < std::ldexp(1.0f, bits);
}

Margin margin_of(PaddingType type) {
  if (type == PaddingType::kReflect) return Margin::mirrored;
  return type == PaddingType::kSymmetric ? Margin::symmetric : Margin::constant;
}

}  // namespace

Pad::Pad(PaddingType padding_type, const Shape& sizes, float constant_value)
    : Layer("Padding"), padding_type_(padding_type), constant_value_(constant_value) {
  const int type = static_cast<int>(padding_type);
  if (type < 0 || type > 3) {
    throw InvalidArgument("[Padding] expected a padding type from 0 to 3 but got " +
                          std::to_string(type));
  }
  const bool valid = (sizes.size() == 1 || sizes.size() == 2 || sizes.size() == 4) &&
                     std::all_of(sizes.begin(), sizes.end(), [](auto size) { return size >= 0; });
  if (!valid) {
    throw InvalidArgument(
        "[Padding] expected 1, 2 or 4 sizes of at least 0 (all sides; left, right; top, bottom, "
        "left, right) but got " +
        to_string(sizes));
  }
  if (sizes.size() == 1) top_ = bottom_ = sizes[0];
  if (sizes.size() == 4) {
    top_ = sizes[0];
    bottom_ = sizes[1];
  }
  left_ = sizes[sizes.size() == 4 ? 2 : 0];
  right_ = sizes.back();
}

LayerPtr Pad::copy() const {
  auto made = std::make_shared<Pad>(padding_type_, sizes(), constant_value_);
  made->set_label(label());
  return made;
}

std::string Pad::description() const {
  return std::string("Padding ") + kPaddingNames[static_cast<int>(padding_type_)] + " " +
         to_string(sizes());
}

// x (…, H, W) → (…, top + H + bottom, left + W + right).
void Pad::emit(Emitter& e) const {
  e.expect_sources(1);
  const ir::Type type = e.type(0);
  if (type.rank() < 3) {
    e.fail_shape("expected a source (…, H, W) of at least 3 axes but got " + to_string(type.shape));
  }
  const Margin margin = margin_of(padding_type_);
  if (!holds(type.data_type, constant_value_)) {
    e.fail_argument(std::string("expected a constant that ") + name(type.data_type) +
                    " holds but got " + short_text(constant_value_));
  }
  const std::int64_t sizes[2][2] = {{top_, bottom_}, {left_, right_}};
  ir::ValueId x = e.sources[0];
  for (int k = 0; k < 2; ++k) {
    const int axis = type.rank() - 2 + k;
    const std::int64_t extent = type.shape[static_cast<std::size_t>(axis)];
    const std::int64_t most = most_mirrored(margin, extent);
    if (std::max(sizes[k][0], sizes[k][1]) > most) {
      e.fail_shape("expected a padding of at most " + std::to_string(most) +
                   " elements to mirror of the extent " + std::to_string(extent) + " in " +
                   to_string(type.shape) + " but got " +
                   std::to_string(std::max(sizes[k][0], sizes[k][1])));
    }
    expect_places(e, ir::sum(extent, ir::sum(sizes[k][0], sizes[k][1])));
    const double number =
        padding_type_ == PaddingType::kConstant ? static_cast<double>(constant_value_) : 0;
    x = with_margins(e.graph, x, axis, sizes[k][0], sizes[k][1], margin, number);
  }
  give(e, x);
}

const ClassDescription& Pad::class_description() {
  const auto sizes = [](const char* name, const char* text) {
    return argument<Shape>(name, text, &kLimit);
  };
  const auto made = [](PaddingType type, const char* name) {
    return [type, name](const Given& given) {
      const bool constant = type == PaddingType::kConstant;
      return std::make_shared<Pad>(type, given.get<Shape>(name),
                                   constant ? given.get<float>("constant_value") : 0.0f);
    };
  };
  static const ClassDescription description =
      Describing<Pad, Layer>("MLCPaddingLayer", "Puts rows and columns around images.")
          .copied_by(&Pad::copy)
          .property("padding_type", &Pad::padding_type, "The values of the margins.")
          .property("padding_left", &Pad::padding_left, "Units: elements.")
          .property("padding_right", &Pad::padding_right, "Units: elements.")
          .property("padding_top", &Pad::padding_top, "Units: elements.")
          .property("padding_bottom", &Pad::padding_bottom, "Units: elements.")
          .property("constant_value", &Pad::constant_value, "The number of CONSTANT.")
          .form({sizes("reflection_padding", "Sizes; mirrored without the edge.")},
                made(PaddingType::kReflect, "reflection_padding"))
          .form({sizes("symmetric_padding", "Sizes; mirrored with the edge.")},
                made(PaddingType::kSymmetric, "symmetric_padding"))
          .form({sizes("zero_padding", "Sizes; zeros.")}, made(PaddingType::kZero, "zero_padding"))
          .form({sizes("constant_padding", "Sizes; one number."),
                 argument<float>("constant_value", "The value of the padding.")},
                made(PaddingType::kConstant, "constant_padding"))
          .text(
              "Sizes are one for all sides, left and right, or top, bottom, left and right. Units: "
              "elements. Shapes: x (…, H, W) to (…, top + H + bottom, left + W + right). Types: "
              "any, "
              "bit for bit. Gradient: dy inside, to which mirrored elements add theirs. Errors: "
              "ValueError for 0, 3 or more than 4 sizes, a negative one, one beyond what can be "
              "mirrored (the extent, without the edge one less), and fewer than 3 axes. Source: "
              "developer.apple.com/documentation/mlcompute/mlcpaddinglayer.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Pad>(PaddingType::kReflect, Shape{1}),
                               {{{1, 2, 2}, t}}};
          });
  return description;
}

// --- upsampling ----------------------------------------------------------------------------------

namespace {

constexpr Range kOfPlaces{1, kMostPlaces, "from 1 to 2**24"};

// Each element of the result is the source's at the same share of the way.
ir::ValueId repeated(ir::Graph& graph, ir::ValueId x, int axis, std::int64_t wanted) {
  const std::int64_t own = graph.type(x).shape[static_cast<std::size_t>(axis)];
  std::vector<double> places;
  for (std::int64_t k = 0; k < wanted; ++k) {
    const std::int64_t place = k * own / wanted;
    places.push_back(static_cast<double>(place));
  }
  return picked(graph, x, axis, std::move(places));
}

// Each element lies between two of the source: (1 - w) below + w above.
ir::ValueId interpolated(ir::Graph& graph, ir::ValueId x, int axis, std::int64_t wanted,
                         bool aligns_corners) {
  const ir::Type type = graph.type(x);
  const std::int64_t own = type.shape[static_cast<std::size_t>(axis)];
  std::vector<double> below, above, far, near;
  for (std::int64_t k = 0; k < wanted; ++k) {
    const auto at = static_cast<double>(k);
    double position = (at + 0.5) * static_cast<double>(own) / static_cast<double>(wanted) - 0.5;
    if (aligns_corners) {
      position =
          wanted == 1 ? 0 : at * static_cast<double>(own - 1) / static_cast<double>(wanted - 1);
    }
    position = std::clamp(position, 0.0, static_cast<double>(own - 1));
    below.push_back(std::floor(position));
    above.push_back(std::min(below.back() + 1, static_cast<double>(own - 1)));
    far.push_back(position - below.back());
    near.push_back(1 - far.back());
  }
  Shape along(static_cast<std::size_t>(type.rank() - axis), 1);
  along[0] = wanted;
  const auto weights = [&](std::vector<double> numbers) {
    return ops::constant(graph, {type.data_type, along, false}, std::move(numbers));
  };
  ir::ScalarList list{4, {}, {}};
  const int first = list.add(ir::Scalar::multiply, 0, 2);
  list.results = {list.add(ir::Scalar::add, first, list.add(ir::Scalar::multiply, 1, 3))};
  return ops::elementwise(
      graph, std::move(list),
      {picked(graph, x, axis, std::move(below)), picked(graph, x, axis, std::move(above)),
       weights(std::move(near)), weights(std::move(far))})[0];
}

}  // namespace

Upsample::Upsample(Shape shape, SampleMode sample_mode, bool aligns_corners)
    : Layer("Upsampling"),
      shape_(std::move(shape)),
      sample_mode_(sample_mode),
      aligns_corners_(aligns_corners) {
  const bool valid = (shape_.size() == 1 || shape_.size() == 2) &&
                     std::all_of(shape_.begin(), shape_.end(), [](std::int64_t extent) {
                       return extent >= 1 && extent <= kMostPlaces;
                     });
  if (!valid) {
    throw InvalidArgument("[Upsampling] expected a width, or a height and a width, from 1 to " +
                          std::to_string(kMostPlaces) + " but got " + to_string(shape_));
  }
  if (sample_mode != SampleMode::kNearest && sample_mode != SampleMode::kLinear) {
    throw InvalidArgument("[Upsampling] expected a sample mode from 0 to 1 but got " +
                          std::to_string(static_cast<int>(sample_mode)));
  }
}

std::string Upsample::description() const {
  return std::string("Upsampling ") + (sample_mode_ == SampleMode::kLinear ? "Linear" : "Nearest") +
         " to " + to_string(shape_) + (aligns_corners_ ? " aligned corners" : "");
}

// x (…, H, W) → (…, height, width).
void Upsample::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  const ir::Type type = e.type(0);
  const std::size_t rank = type.shape.size(), first = rank - shape_.size();
  bool fits = rank > shape_.size();
  for (std::size_t k = 0; fits && k < shape_.size(); ++k) fits = shape_[k] >= type.shape[first + k];
  if (!fits) {
    e.fail_shape("expected a source of more than " + std::to_string(shape_.size()) +
                 " axes, the last ones no larger than " + to_string(shape_) + ", but got " +
                 to_string(type.shape));
  }
  ir::ValueId x = e.sources[0];
  // Columns first: rows are copied as a whole, so there may be more of them.
  for (std::size_t k = shape_.size(); k-- > 0;) {
    const int axis = static_cast<int>(first + k);
    if (shape_[k] == type.shape[first + k]) continue;
    x = sample_mode_ == SampleMode::kLinear
            ? interpolated(e.graph, x, axis, shape_[k], aligns_corners_)
            : repeated(e.graph, x, axis, shape_[k]);
  }
  give(e, x);
}

const ClassDescription& Upsample::class_description() {
  const auto shape = [] {
    return argument<Shape>("shape", "The result's width, or its height and width.", &kOfPlaces);
  };
  static const ClassDescription description =
      Describing<Upsample, Layer>("MLCUpsampleLayer", "Makes images larger.")
          .property("shape", &Upsample::shape, "The result's width, or its height and width.")
          .property("sample_mode", &Upsample::sample_mode,
                    "Nearest neighbour, or linear interpolation.")
          .property("aligns_corners", &Upsample::aligns_corners,
                    "Whether the first and last elements of LINEAR keep their places.")
          .form({shape(),
                 argument("sample_mode", SampleMode::kNearest,
                          "Nearest neighbour, or linear interpolation."),
                 argument("aligns_corners", false,
                          "Whether the first and last elements of LINEAR keep their places.")},
                [](const Given& given) {
                  return std::make_shared<Upsample>(given.get<Shape>("shape"),
                                                    given.get<SampleMode>("sample_mode"),
                                                    given.get<bool>("aligns_corners"));
                })
          .text(
              "Shapes: x (…, H, W) to (…, height, width), or (…, W) to (…, width). Types: "
              "floating-point numbers. Formula: NEAREST takes element floor(k * W / width), bit "
              "for bit; LINEAR is "
              "(1 - w) x[i] + w x[i + 1] at i + w = (k + 0.5) * W / width - 0.5, at least 0, or "
              "k * (W - 1) / (width - 1) with aligned corners, along each axis. Gradient: each dy "
              "to "
              "what it was made of, by the same weights. Errors: ValueError for a size below the "
              "source's and other numbers of axes, TypeError for other types. Source: "
              "developer.apple.com/documentation/mlcompute/mlcupsamplelayer.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Upsample>(Shape{3}, SampleMode::kLinear),
                               {{{1, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
