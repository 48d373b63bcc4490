// The YOLO loss as ops: boxes in cells, overlap with labels, and the terms for position, size,
// confidence and class.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "ir/number_text.h"
#include "layers/checks.h"
#include "layers/loss_sources.h"

namespace traingraph {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

LossDescriptor per_sample() {
  LossDescriptor descriptor;
  descriptor.reduction = ReductionType::kNone;
  return descriptor;
}

YOLOLossDescriptor checked_anchors(YOLOLossDescriptor d) {
  d.check_numbers("YOLO Loss");
  if (d.anchor_boxes.empty()) {
    throw InvalidArgument("[YOLO Loss] expected at least 1 anchor box but got none");
  }
  return d;
}

// Registers of a box: its middle, and its sizes.
struct Box {
  int x, y, w, h;
};

int add_common_extent(ScalarList& list, int x, int w, int other_x, int other_w) {
  const auto end = [&](int at, int size, double half) {
    return list.add(Scalar::multiply_add, at, size, 1, half);
  };
  const int low = list.add(Scalar::maximum, end(x, w, -0.5), end(other_x, other_w, -0.5));
  const int high = list.add(Scalar::minimum, end(x, w, 0.5), end(other_x, other_w, 0.5));
  return list.add(Scalar::relu, list.add(Scalar::subtract, high, low));
}

// Intersection over union, 0 of two empty boxes.
int add_overlap(ScalarList& list, const Box& a, const Box& b) {
  const int common = list.add(Scalar::multiply, add_common_extent(list, a.x, a.w, b.x, b.w),
                              add_common_extent(list, a.y, a.h, b.y, b.h));
  const int both = list.add(Scalar::add, list.add(Scalar::multiply, a.w, a.h),
                            list.add(Scalar::multiply, b.w, b.h));
  return list.add(Scalar::divide_no_nan, common, list.add(Scalar::subtract, both, common));
}

// A predicted box in its cell; its registers are x, y, w, h and the anchor's sizes.
Box add_predicted_box(ScalarList& list, const Box& raw, int anchor_w, int anchor_h) {
  const auto size = [&](int w, int anchor) {
    return list.add(Scalar::multiply, list.add(Scalar::exp, w), anchor);
  };
  return {list.add(Scalar::sigmoid, raw.x), list.add(Scalar::sigmoid, raw.y), size(raw.w, anchor_w),
          size(raw.h, anchor_h)};
}

// Every box of N images of H * W = P cells, in channels (N, 5 + K, A, P).
class Yolo {
 public:
  Yolo(Emitter& e, const YOLOLossDescriptor& d) : e_(e), d_(d) {
    const ir::Type type = e.type(0);
    const auto anchors = d.anchor_box_count();
    const Shape& s = type.shape;
    if (s.size() != 4 || s[1] % anchors != 0 || s[1] / anchors < 5) {
      e.fail_shape("expected a prediction (N, " + std::to_string(anchors) +
                   " * (5 + K), H, W) but got " + to_string(s));
    }
    type_ = type.data_type;
    classes_ = s[1] / anchors - 5;
    cells_ = s[2] * s[3];
    prediction_ = channels(e.sources[0]);
    labels_ = channels(labels_like_prediction(e));
    std::vector<double> widths, heights, columns, rows;
    for (const AnchorBox& anchor : d.anchor_boxes) {
      widths.push_back(static_cast<double>(anchor[0]));
      heights.push_back(static_cast<double>(anchor[1]));
    }
    for (std::int64_t cell = 0; cell < cells_; ++cell) {
      columns.push_back(static_cast<double>(cell % s[3]));
      const std::int64_t row = cell / s[3];
      rows.push_back(static_cast<double>(row));
    }
    anchor_w_ = constant({1, 1, anchors, 1}, std::move(widths));
    anchor_h_ = constant({1, 1, anchors, 1}, std::move(heights));
    column_ = constant({1, 1, 1, cells_}, std::move(columns));
    row_ = constant({1, 1, 1, cells_}, std::move(rows));
    ScalarList list{1, {}, {}};
    const int none = list.add(Scalar::constant, -1, -1, 0);
    const int off = list.add(Scalar::affine, 0, -1, 1, -1);
    list.results = {list.add(Scalar::where_nonzero, none, off, 1)};
    responsible_ = ops::elementwise(e.graph, std::move(list), {part(labels_, 4)})[0];
  }

  // One value per sample (N).
  ValueId values() const {
    // x, y, w, h, confidence; x, y, w, h of the label; who is responsible; the anchor's sizes; the
    // weight of a confidence without object; the class term.
    std::vector<ValueId> inputs = first_four(prediction_);
    inputs.push_back(part(prediction_, 4));
    for (ValueId value : first_four(labels_)) inputs.push_back(value);
    inputs.insert(inputs.end(), {responsible_, anchor_w_, anchor_h_, weight_without_object()});
    if (classes_ > 0) inputs.push_back(class_term());
    ScalarList list{static_cast<int>(inputs.size()), {}, {}};
    const int confidence = 4, responsible = 9, anchor_w = 10, anchor_h = 11, absent = 12;
    // What labels of others hold is not looked at.
    const auto label = [&](int k) {
      return list.add(Scalar::where_nonzero, 5 + k, responsible, 1);
    };
    const Box raw{0, 1, 2, 3}, truth{label(0), label(1), label(2), label(3)};
    const Box box = add_predicted_box(list, raw, anchor_w, anchor_h);

    const auto squared = [&](int at, int wanted) {
      return list.add(Scalar::square, list.add(Scalar::subtract, at, wanted));
    };
    const auto huber = [&](int at, int size, int anchor) {
      const int ratio = list.add(Scalar::divide, size, anchor);
      return list.add(Scalar::huber, at, list.add(Scalar::log, ratio), 1);
    };
    const int position = list.add(Scalar::add, squared(box.x, truth.x), squared(box.y, truth.y));
    const int size =
        list.add(Scalar::add, huber(raw.w, truth.w, anchor_w), huber(raw.h, truth.h, anchor_h));
    int terms = list.add(Scalar::multiply_add, position, size,
                         scale(d_.scale_spatial_position_loss), scale(d_.scale_spatial_size_loss));
    if (classes_ > 0) {
      terms = list.add(Scalar::multiply_add, terms, 13, 1, scale(d_.scale_class_loss));
    }
    terms = list.add(Scalar::mask, terms, responsible);

    int target = responsible;
    if (d_.should_rescore) {
      // A difference from 0 is the number, and no gradient flows through it.
      const int zero = list.add(Scalar::constant, -1, -1, 0);
      target = list.add(Scalar::difference, add_overlap(list, box, truth), zero);
      target = list.add(Scalar::mask, target, responsible);
    }
    const int weight = list.add(Scalar::multiply_add, responsible, absent,
                                scale(d_.scale_object_confidence_loss), 1);
    const int entropy = list.add(Scalar::sigmoid_cross_entropy, confidence, target);
    list.results = {list.add(Scalar::add, terms, list.add(Scalar::mask, entropy, weight))};
    ValueId result = ops::elementwise(e_.graph, std::move(list), std::move(inputs))[0];
    const bool batched = e_.graph.type(result).batched;
    result = ops::reduce(e_.graph, ir::ReduceKind::sum, result, {1, 2, 3});
    return ops::reshape(e_.graph, result, {e_.type(0).shape[0]}, batched);
  }

 private:
  static double scale(float number) { return static_cast<double>(number); }
  ValueId constant(Shape shape, std::vector<double> numbers) const {
    return ops::constant(e_.graph, {type_, std::move(shape), false}, std::move(numbers));
  }
  // (N, A * (5 + K), H, W) → (N, 5 + K, A, P)
  ValueId channels(ValueId x) const {
    const ir::Type type = e_.graph.type(x);
    x = ops::reshape(e_.graph, x, {type.shape[0], d_.anchor_box_count(), 5 + classes_, cells_},
                     type.batched);
    return ops::apply1(e_.graph, ir::Op::transpose, ir::TransposeAttributes{{0, 2, 1, 3}}, {x});
  }
  ValueId part(ValueId x, std::int64_t first, std::int64_t count = 1) const {
    return ops::apply1(e_.graph, ir::Op::slice, ir::SliceAttributes{1, first, count}, {x});
  }
  std::vector<ValueId> first_four(ValueId x) const {
    return {part(x, 0), part(x, 1), part(x, 2), part(x, 3)};
  }
  ValueId reshaped(ValueId x, std::int64_t second, std::int64_t third) const {
    const ir::Type type = e_.graph.type(x);
    return ops::reshape(e_.graph, x, {type.shape[0], second, third}, type.batched);
  }

  // The largest overlap of each predicted box with a labelled one of the image, (N, 1, A, P).
  ValueId best_overlap() const {
    ScalarList predicted{8, {}, {}};
    const Box box = add_predicted_box(predicted, {0, 1, 2, 3}, 4, 5);
    predicted.results = {predicted.add(Scalar::add, box.x, 6), predicted.add(Scalar::add, box.y, 7),
                         box.w, box.h};
    std::vector<ValueId> inputs = first_four(prediction_);
    inputs.insert(inputs.end(), {anchor_w_, anchor_h_, column_, row_});
    const std::vector<ValueId> boxes = ops::elementwise(e_.graph, std::move(predicted), inputs);

    // Those without object are empty.
    ScalarList labelled{7, {}, {}};
    int own[4];
    for (int k = 0; k < 4; ++k) own[k] = labelled.add(Scalar::where_nonzero, k, 4, 0);
    labelled.results = {labelled.add(Scalar::add, own[0], 5), labelled.add(Scalar::add, own[1], 6),
                        own[2], own[3]};
    inputs = first_four(labels_);
    inputs.insert(inputs.end(), {responsible_, column_, row_});
    const std::vector<ValueId> truths = ops::elementwise(e_.graph, std::move(labelled), inputs);

    const std::int64_t count = d_.anchor_box_count() * cells_;
    inputs.clear();
    for (ValueId value : boxes) inputs.push_back(reshaped(value, count, 1));
    for (ValueId value : truths) inputs.push_back(reshaped(value, 1, count));
    ScalarList pairs{8, {}, {}};
    pairs.results = {add_overlap(pairs, {0, 1, 2, 3}, {4, 5, 6, 7})};
    const ValueId overlaps = ops::elementwise(e_.graph, std::move(pairs), std::move(inputs))[0];
    const ValueId best =
        ops::apply1(e_.graph, ir::Op::extremum, ir::ExtremumAttributes{2, true, false}, {overlaps});
    const ir::Type type = e_.graph.type(responsible_);
    return ops::reshape(e_.graph, best, type.shape, type.batched);
  }

  // Of the cross entropy of those that are not responsible, where they overlap no label enough.
  ValueId weight_without_object() const {
    const ValueId limit =
        constant({1, 1, 1, 1}, {static_cast<double>(d_.maximum_iou_for_object_absence)});
    const ValueId below =
        ops::apply1(e_.graph, ir::Op::compare, ir::CompareAttributes{ir::Comparison::less},
                    {best_overlap(), limit});
    const double weight = scale(d_.scale_no_object_confidence_loss);
    const ValueId others = ops::unary(e_.graph, Scalar::affine, responsible_, -weight, weight);
    return ops::apply1(e_.graph, ir::Op::select, ir::SelectAttributes{}, {below, others});
  }

  // Softmax cross entropy, (N, 1, A, P).
  ValueId class_term() const {
    const ValueId loss =
        ops::apply1(e_.graph, ir::Op::softmax_cross_entropy, ir::CrossEntropyAttributes{0, 0},
                    {part(prediction_, 5, classes_), part(labels_, 5, classes_)});
    const ir::Type type = e_.graph.type(responsible_);
    return ops::reshape(e_.graph, loss, type.shape, type.batched);
  }

  Emitter& e_;
  const YOLOLossDescriptor& d_;
  DataType type_;
  std::int64_t classes_ = 0, cells_ = 0;
  ValueId prediction_, labels_, responsible_, anchor_w_, anchor_h_, column_, row_;
};

}  // namespace

void YOLOLossDescriptor::check_numbers(const std::string& subject) const {
  check_ranges(class_description(), this, subject);
  for (const AnchorBox& anchor : anchor_boxes) {
    for (float size : anchor) {
      if (size > 0 && size <= kFinite.most) continue;
      throw InvalidArgument("[" + subject +
                            "] expected anchor_boxes of finite sizes above 0 but got " +
                            short_text(size));
    }
  }
}

YOLOLoss::YOLOLoss(YOLOLossDescriptor descriptor)
    : Loss(per_sample()), yolo_loss_descriptor_(checked_anchors(std::move(descriptor))) {}

std::string YOLOLoss::description() const {
  return "YOLO Loss " + std::to_string(yolo_loss_descriptor_.anchor_box_count()) + " anchors";
}

void YOLOLoss::emit(Emitter& e) const {
  e.expect_sources(2, 3);
  expect_floating(e, 0, "a prediction");
  expect_floating(e, 1, "labels");
  ValueId values = Yolo(e, yolo_loss_descriptor_).values();
  if (e.sources.size() > 2) {
    expect_floating(e, 2, "weights");
    const ir::Type given = e.type(2);
    const Shape expected = e.graph.type(values).shape;
    if (without_ones(given.shape) != expected) {
      e.fail_shape("expected one weight per loss value, " + to_string(expected) + ", but got " +
                   to_string(given.shape));
    }
    values = ops::binary(e.graph, Scalar::mask, values,
                         ops::reshape(e.graph, e.sources[2], expected, given.batched));
  }
  e.result(values);
}

const ClassDescription& YOLOLossDescriptor::class_description() {
  using D = YOLOLossDescriptor;
  static const ClassDescription description =
      Describing<D>("MLCYOLOLossDescriptor", "The anchors of a YOLO loss, and its scales.")
          .property("anchor_boxes", &D::anchor_boxes, "Width and height of each. Units: cells.")
          .property("anchor_box_count", &D::anchor_box_count, "The number of anchor boxes.")
          .settable("should_rescore", &D::should_rescore,
                    "Whether confidence is trained towards the overlap with the label, not 1.")
          .settable("scale_spatial_position_loss", &D::scale_spatial_position_loss,
                    "The factor of x and y, 10 at first.")
          .in(kNotNegative)
          .settable("scale_spatial_size_loss", &D::scale_spatial_size_loss,
                    "The factor of width and height, 10 at first.")
          .in(kNotNegative)
          .settable("scale_no_object_confidence_loss", &D::scale_no_object_confidence_loss,
                    "The factor of confidence where there is no object, 5 at first.")
          .in(kNotNegative)
          .settable("scale_object_confidence_loss", &D::scale_object_confidence_loss,
                    "The factor of confidence where there is one, 100 at first.")
          .in(kNotNegative)
          .settable("scale_class_loss", &D::scale_class_loss,
                    "The factor of the classes, 2 at first.")
          .in(kNotNegative)
          .settable("minimum_iou_for_object_presence", &D::minimum_iou_for_object_presence,
                    "Kept, 0.7 at first; labels alone say which anchors are responsible.")
          .in(kShare)
          .settable("maximum_iou_for_object_absence", &D::maximum_iou_for_object_absence,
                    "Below which overlap with every label there is no object, 0.3 at first.")
          .in(kShare)
          .form({argument<std::vector<AnchorBox>>("anchor_boxes",
                                                  "Width and height of each. Units: cells."),
                 argument<std::int64_t>("anchor_box_count", "The number of anchor boxes.",
                                        &kOneOrMore)},
                [](const Given& given) {
                  D made;
                  made.anchor_boxes = given.get<std::vector<AnchorBox>>("anchor_boxes");
                  const auto count = given.get<std::int64_t>("anchor_box_count");
                  if (count < 1 || count != made.anchor_box_count()) {
                    throw InvalidArgument(
                        "[MLCYOLOLossDescriptor] expected an anchor_box_count of at least 1 and "
                        "as many anchor boxes but got " +
                        std::to_string(count) + " and " + std::to_string(made.anchor_box_count()));
                  }
                  made.check_numbers("MLCYOLOLossDescriptor");
                  return made;
                })
          .text(
              "anchor_boxes takes pairs, an array, or the bytes of float32 numbers. Errors: "
              "ValueError for another count and for sizes that are not finite and above 0.");
  return description;
}

const ClassDescription& YOLOLoss::class_description() {
  static const ClassDescription description =
      Describing<YOLOLoss, Layer, Loss>("MLCYOLOLossLayer", "Measures boxes of objects.")
          .property("yolo_loss_descriptor", &YOLOLoss::yolo_loss_descriptor,
                    "The anchors and scales.")
          .form({argument<YOLOLossDescriptor>("descriptor", "The anchors and scales.")},
                [](const Given& given) {
                  return std::make_shared<YOLOLoss>(given.get<YOLOLossDescriptor>("descriptor"));
                })
          .text(
              "Shapes: prediction and labels (N, A * (5 + K), H, W), for each of A anchors x, y, "
              "w, h, confidence and K classes; optionally weights (N); to (N), the sum over "
              "anchors and cells. Types: floating-point numbers of one type. Labels: x and y lie "
              "in the cell, from 0 to 1, w and h are in cells. Formula: an anchor whose label has "
              "confidence 1 adds position * ((sigmoid(x) - tx)**2 + (sigmoid(y) - ty)**2), size * "
              "(huber(w - log(tw / anchor)) + the same of h), object * "
              "sigmoid_cross_entropy(confidence, o) and class * softmax_cross_entropy(classes); o "
              "is the overlap (IOU) of its box with the label, or 1 unless rescoring. Any other "
              "adds no_object * softplus(confidence) where its box, anchor * exp(w) wide, overlaps "
              "each label of the image by less than maximum_iou_for_object_absence. Gradient: that "
              "of the formula, none through overlaps. Memory: one number for each pair of boxes of "
              "an image. Errors: ValueError for other shapes, TypeError for other types. Source: "
              "arxiv.org/abs/1612.08242, "
              "developer.apple.com/documentation/mlcompute/mlcyololosslayer.")
          .sample([](DataType t) {
            YOLOLossDescriptor d;
            d.anchor_boxes = {{1, 1}};
            return LayerSample{std::make_shared<YOLOLoss>(d),
                               {{{1, 6, 1, 2}, t}, {{1, 6, 1, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
