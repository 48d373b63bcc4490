// Graph nodes of kernels with a data source (convolution, fully connected, batch normalization) and
// of the loss. Gradient nodes, here and in the headers beside this one, take the gradient state of
// their forward node, and raise InvalidArgument for one of another kind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mps/batch_normalization.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/mps/loss.h>
#include <traingraph/mps/nodes.h>

namespace traingraph::mps {

// The data source is asked for an update when the gradient node is part of a graph.
template <class Source>
class SourceNode : public NNFilterNode {
 public:
  NNTrainingStyle training_style = NNTrainingStyle::kUpdateDeviceGPU;
  const std::shared_ptr<Source>& data_source() const { return data_source_; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    visitor(data_source_);
  }

 protected:
  SourceNode(const char* kind, NNImageNodePtr source, std::shared_ptr<Source> data_source,
             std::unique_ptr<NNStateNode> state, std::vector<NNStateNodePtr> source_states = {})
      : NNFilterNode({std::move(source)}, std::move(source_states)),
        data_source_(std::move(data_source)) {
    check_sources(kind);
    if (data_source_ == nullptr) {
      throw InvalidArgument("[" + std::string(kind) + "] expected a data source but got none");
    }
    label = data_source_->label();
    add_state(std::move(state));
  }

 private:
  std::shared_ptr<Source> data_source_;
};

class TRAINGRAPH_API CNNConvolutionNode : public SourceNode<CNNConvolutionDataSource> {
 public:
  CNNConvolutionNode(NNImageNodePtr source, CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNConvolutionNode"; }
  std::shared_ptr<CNNConvolutionGradientStateNode> convolution_gradient_state();
  virtual bool is_full() const { return false; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  using SourceNode::SourceNode;
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

class TRAINGRAPH_API CNNFullyConnectedNode final : public CNNConvolutionNode {
 public:
  CNNFullyConnectedNode(NNImageNodePtr source, CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNFullyConnectedNode"; }
  bool is_full() const override { return true; }

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

// Without weights: the forward node's.
class TRAINGRAPH_API CNNConvolutionGradientNode : public NNGradientFilterNode {
 public:
  CNNConvolutionGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                             NNStateNodePtr gradient_state, CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNConvolutionGradientNode"; }
  NNTrainingStyle training_style;
  const CNNConvolutionDataSourcePtr& data_source() const { return weights_; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    visitor(weights_);
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  CNNConvolutionGradientNode(const char* kind, NNImageNodePtr source_gradient,
                             NNImageNodePtr source_image, NNStateNodePtr gradient_state,
                             const CNNConvolutionNode& forward,
                             CNNConvolutionDataSourcePtr weights);

 private:
  CNNConvolutionDataSourcePtr weights_;
};

class TRAINGRAPH_API CNNFullyConnectedGradientNode final : public CNNConvolutionGradientNode {
 public:
  using CNNConvolutionGradientNode::CNNConvolutionGradientNode;
  const char* kind() const override { return "MPSCNNFullyConnectedGradientNode"; }
};

// Apple's raw values.
enum class CNNBatchNormalizationFlags : int {
  kAutomatic = 0,  // statistics of the batch where the result state is read
  kAlways = 1,
  kNever = 2,
};

class TRAINGRAPH_API CNNBatchNormalizationNode final
    : public SourceNode<CNNBatchNormalizationDataSource> {
 public:
  CNNBatchNormalizationNode(NNImageNodePtr source, CNNBatchNormalizationDataSourcePtr data_source);
  const char* kind() const override { return "MPSCNNBatchNormalizationNode"; }
  CNNBatchNormalizationFlags flags = CNNBatchNormalizationFlags::kAutomatic;
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

class TRAINGRAPH_API CNNBatchNormalizationGradientNode final : public NNGradientFilterNode {
 public:
  CNNBatchNormalizationGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                                    NNStateNodePtr gradient_state);
  const char* kind() const override { return "MPSCNNBatchNormalizationGradientNode"; }
  NNTrainingStyle training_style;
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
};

// Its result is the derivative of the loss; the loss itself goes into the labels.
class TRAINGRAPH_API CNNLossNode final : public NNFilterNode {
 public:
  CNNLossNode(NNImageNodePtr source, CNNLossDescriptor descriptor);
  const char* kind() const override { return "MPSCNNLossNode"; }
  std::shared_ptr<NNLabelsNode> input_labels();
  NNStateNodePtr input_state() override { return input_labels(); }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    visitor(labels_.handle);
  }
  bool begins_gradients() const override { return true; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
  const CNNLossDescriptor& descriptor() const { return descriptor_; }

 private:
  CNNLossDescriptor descriptor_;
  NNLabelsNode labels_;
};

}  // namespace traingraph::mps
