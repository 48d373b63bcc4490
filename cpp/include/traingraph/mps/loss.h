// CNNLoss, which computes a loss and its gradient in one kernel, its descriptor, and CNNLossLabels,
// the state that carries labels, weights and the loss image.
#pragma once

#include <memory>
#include <vector>

#include <traingraph/mps/kernel.h>
#include <traingraph/tensor.h>

namespace traingraph::mps {

// Apple's raw values.
enum class CNNLossType : int {
  kMeanAbsoluteError = 0,
  kMeanSquaredError = 1,
  kSoftMaxCrossEntropy = 2,
  kSigmoidCrossEntropy = 3,
  kCategoricalCrossEntropy = 4,
  kHinge = 5,
  kHuber = 6,
  kCosineDistance = 7,
  kLog = 8,
  kKullbackLeiblerDivergence = 9,
};
enum class CNNReductionType : int { kNone = 0, kSum = 1, kMean = 2, kSumByNonZeroWeights = 3 };

struct TRAINGRAPH_API CNNLossDescriptor {
  CNNLossType loss_type = CNNLossType::kMeanSquaredError;
  CNNReductionType reduction_type = CNNReductionType::kNone;
  bool reduce_across_batch = false;
  float weight = 1.0f;
  float label_smoothing = 0.0f;
  std::int64_t number_of_classes = 0;  // 0: as many as channels
  float epsilon = 1e-7f;
  float delta = 1.0f;
  bool operator==(const CNNLossDescriptor&) const = default;
};

// Labels or weights, float32, in the caller's memory.
struct TRAINGRAPH_API CNNLossData {
  TensorData data;
};

// Labels or weights of one image, float32: a copy of what is given. Bytes per row and per slice (a
// plane, where channels come first; else the image) begin as those without anything between.
class TRAINGRAPH_API CNNLossDataDescriptor {
 public:
  CNNLossDataDescriptor(const void* data, std::size_t length, DataLayout layout,
                        const ImageDescriptor& size);
  DataLayout layout() const { return layout_; }
  const ImageDescriptor& size() const { return size_; }
  std::int64_t bytes_per_row;
  std::int64_t bytes_per_image;
  // Raises ShapeError where the data is too short for its size, or rows or slices overlap.
  ImagePtr image(const Device& device) const;

 private:
  std::shared_ptr<const std::vector<std::byte>> data_;
  DataLayout layout_;
  ImageDescriptor size_;
};

// The labels of one image, and where its loss goes.
class TRAINGRAPH_API CNNLossLabels final : public State {
 public:
  // `loss_image_size` is that of the reduced or unreduced loss. Weights may be null; there is one
  // per value of the loss, or of softmax cross entropy one per label, with a loss of -sum w t log
  // p.
  CNNLossLabels(const Device& device, const ImageDescriptor& loss_image_size, ImagePtr labels,
                ImagePtr weights = nullptr);
  CNNLossLabels(ImagePtr loss_image, ImagePtr labels, ImagePtr weights);
  // With a loss of one value.
  CNNLossLabels(const Device& device, const CNNLossDataDescriptor& labels);
  const char* kind() const override { return "MPSCNNLossLabels"; }
  const ImagePtr& loss_image() const { return loss_; }
  const ImagePtr& labels_image() const { return labels_; }
  const ImagePtr& weights_image() const { return weights_; }

 private:
  ImagePtr loss_;
  ImagePtr labels_;
  ImagePtr weights_;
};
using CNNLossLabelsBatch = std::vector<std::shared_ptr<CNNLossLabels>>;

// Writes the loss into the labels' loss images; the result images are its derivative by the
// prediction, with the reduction's factor. mean divides by the values of one image, with
// reduce_across_batch by the images too; the sum is then in the first loss image, and zero in the
// others.
class TRAINGRAPH_API CNNLoss final : public Kernel, public AllocatesImages {
 public:
  CNNLoss(const Device& device, CNNLossDescriptor descriptor);
  const char* kind() const override { return "MPSCNNLoss"; }
  const CNNLossDescriptor& descriptor() const { return descriptor_; }
  // Apple's text in place of the derivative, for comparison: of softmax cross entropy softmax - t,
  // of hinge that of labels 2 t - 1, of Huber delta without a sign beyond delta, of Kullback and
  // Leibler -t / y. Raises Unsupported for other losses.
  bool header_formula() const { return header_formula_; }
  void set_header_formula(bool value);
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(image_allocator()); }

  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                          const CNNLossLabelsBatch& labels);
  void encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                    const CNNLossLabelsBatch& labels, const ImageBatch& destinations);

 protected:
  OperationPtr make_operation() const override;

 private:
  CNNLossDescriptor descriptor_;
  bool header_formula_ = false;
};

}  // namespace traingraph::mps
