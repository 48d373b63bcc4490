// Loss layers: `Loss` with its types, reductions and weights, and `YOLOLoss` for object detection.
#pragma once

#include <array>
#include <vector>

#include <traingraph/layer.h>

namespace traingraph {

enum class LossType : int {
  kMeanAbsoluteError = 0,
  kMeanSquaredError = 1,
  kSoftmaxCrossEntropy = 2,
  kSigmoidCrossEntropy = 3,
  kCategoricalCrossEntropy = 4,
  kHinge = 5,
  kHuber = 6,
  kCosineDistance = 7,
  kLog = 8,
};

struct TRAINGRAPH_API LossDescriptor {
  static const ClassDescription& class_description();
  LossType type = LossType::kMeanSquaredError;
  ReductionType reduction = ReductionType::kMean;
  float weight = 1.0f;
  float label_smoothing = 0.0f;
  std::int64_t class_count = 0;  // 0: from the labels
  float epsilon = 1e-7f;
  float delta = 1.0f;
};

// Sources: prediction, label, optionally one weight per value that reduction none gives. Labels of
// softmax cross entropy are a distribution of the prediction's shape, which weights may have too,
// or integer classes without the class axis (or with extent 1); -1 ignores the row.
class TRAINGRAPH_API Loss : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Loss(LossDescriptor descriptor, TensorPtr weights = nullptr);
  const LossDescriptor& descriptor() const { return descriptor_; }
  const TensorPtr& weights() const { return weights_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  LossDescriptor descriptor_;
  TensorPtr weights_;
};

// The mean of the source's elements, whatever it was made of: a loss of the user's own.
class TRAINGRAPH_API ExpressionLoss final : public Loss {
 public:
  ExpressionLoss() : Loss({}) {}
  std::string description() const override { return "Loss of an expression"; }
  void emit(Emitter& emitter) const override;
};

// Width and height in cells.
using AnchorBox = std::array<float, 2>;

struct TRAINGRAPH_API YOLOLossDescriptor {
  static const ClassDescription& class_description();
  // Raises InvalidArgument with the first number that lies outside its range.
  void check_numbers(const std::string& subject) const;
  std::int64_t anchor_box_count() const { return static_cast<std::int64_t>(anchor_boxes.size()); }

  std::vector<AnchorBox> anchor_boxes;
  bool should_rescore = true;
  float scale_spatial_position_loss = 10;
  float scale_spatial_size_loss = 10;
  float scale_no_object_confidence_loss = 5;
  float scale_object_confidence_loss = 100;
  float scale_class_loss = 2;
  float minimum_iou_for_object_presence = 0.7f;  // changes nothing: labels say who is responsible
  float maximum_iou_for_object_absence = 0.3f;
};

// Sources: prediction (N, A * (5 + K), H, W), labels like it, optionally one weight per sample.
// Result: one value per sample (N).
class TRAINGRAPH_API YOLOLoss final : public Loss {
 public:
  static const ClassDescription& class_description();
  // Raises InvalidArgument for no anchors and numbers outside of their ranges.
  explicit YOLOLoss(YOLOLossDescriptor descriptor);
  const YOLOLossDescriptor& yolo_loss_descriptor() const { return yolo_loss_descriptor_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  YOLOLossDescriptor yolo_loss_descriptor_;
};

}  // namespace traingraph
