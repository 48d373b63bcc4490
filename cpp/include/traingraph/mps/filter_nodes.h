#pragma once

#include <memory>
#include <vector>

#include <traingraph/mps/batch_normalization.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/mps/loss.h>
#include <traingraph/mps/nodes.h>
#include <traingraph/mps/pooling.h>

// Nodes of kernels that networks are mostly made of. Gradient nodes, here and in the headers beside
// this one, take the state of the forward node whose gradient they make, and raise InvalidArgument
// for that of another kind.
namespace traingraph::mps {

// The data source is asked for an update when its gradient node is part of a graph.
class TRAINGRAPH_API CNNConvolutionNode : public NNFilterNode {
 public:
  CNNConvolutionNode(NNImageNodePtr source, CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNConvolutionNode"; }
  NNTrainingStyle training_style = NNTrainingStyle::kUpdateDeviceGPU;
  std::shared_ptr<CNNConvolutionGradientStateNode> convolution_gradient_state();
  const CNNConvolutionDataSourcePtr& data_source() const { return weights_; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    visitor(weights_);
  }
  virtual bool is_full() const { return false; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  CNNConvolutionNode(const char* kind, NNImageNodePtr source, CNNConvolutionDataSourcePtr weights,
                     std::unique_ptr<NNStateNode> state,
                     std::vector<NNStateNodePtr> source_states = {});
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  CNNConvolutionDataSourcePtr weights_;
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
                             NNImageNodePtr source_image, const NNStateNodePtr& gradient_state,
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

// `kind` must outlive the node: one of Apple's names of neuron nodes.
class TRAINGRAPH_API CNNNeuronNode : public NNFilterNode {
 public:
  CNNNeuronNode(NNImageNodePtr source, NeuronDescriptor descriptor,
                const char* kind = "MPSCNNNeuronNode");
  const char* kind() const override { return kind_; }
  const NeuronDescriptor& descriptor() const { return descriptor_; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  NeuronDescriptor descriptor_;
  const char* kind_;
};

class TRAINGRAPH_API CNNNeuronGradientNode final : public NNGradientFilterNode {
 public:
  CNNNeuronGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                        NNStateNodePtr gradient_state, NeuronDescriptor descriptor);
  const char* kind() const override { return "MPSCNNNeuronGradientNode"; }
  const NeuronDescriptor& descriptor() const { return descriptor_; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  NeuronDescriptor descriptor_;
};

class TRAINGRAPH_API CNNPoolingNode : public NNFilterNode {
 public:
  CNNPoolingNode(NNImageNodePtr source, CNNPoolingType type, const KernelWindow& window);
  const char* kind() const override;
  CNNPoolingType type() const { return type_; }
  const KernelWindow& window() const { return window_; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  CNNPoolingType type_;
  KernelWindow window_;
};

class TRAINGRAPH_API CNNPoolingGradientNode : public NNGradientFilterNode {
 public:
  CNNPoolingGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                         NNStateNodePtr gradient_state, CNNPoolingType type,
                         const KernelWindow& window);
  const char* kind() const override;
  CNNPoolingType type() const { return type_; }
  const KernelWindow& window() const { return window_; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  CNNPoolingType type_;
  KernelWindow window_;
};

template <CNNPoolingType kType>
class TRAINGRAPH_API CNNPoolingNodeOf final : public CNNPoolingNode {
 public:
  CNNPoolingNodeOf(NNImageNodePtr source, const KernelWindow& window)
      : CNNPoolingNode(std::move(source), kType, window) {}
};
using CNNPoolingMaxNode = CNNPoolingNodeOf<CNNPoolingType::kMax>;
using CNNPoolingAverageNode = CNNPoolingNodeOf<CNNPoolingType::kAverage>;
using CNNPoolingL2NormNode = CNNPoolingNodeOf<CNNPoolingType::kL2Norm>;
using CNNDilatedPoolingMaxNode = CNNPoolingNodeOf<CNNPoolingType::kDilatedMax>;

template <CNNPoolingType kType>
class TRAINGRAPH_API CNNPoolingGradientNodeOf final : public CNNPoolingGradientNode {
 public:
  CNNPoolingGradientNodeOf(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                           NNStateNodePtr gradient_state, const KernelWindow& window)
      : CNNPoolingGradientNode(std::move(source_gradient), std::move(source_image),
                               std::move(gradient_state), kType, window) {}
};
using CNNPoolingMaxGradientNode = CNNPoolingGradientNodeOf<CNNPoolingType::kMax>;
using CNNPoolingAverageGradientNode = CNNPoolingGradientNodeOf<CNNPoolingType::kAverage>;
using CNNPoolingL2NormGradientNode = CNNPoolingGradientNodeOf<CNNPoolingType::kL2Norm>;
using CNNDilatedPoolingMaxGradientNode = CNNPoolingGradientNodeOf<CNNPoolingType::kDilatedMax>;

// Apple's raw values.
enum class CNNBatchNormalizationFlags : int {
  kAutomatic = 0,  // statistics of the batch where the result state is read
  kAlways = 1,
  kNever = 2,
};

class TRAINGRAPH_API CNNBatchNormalizationNode final : public NNFilterNode {
 public:
  CNNBatchNormalizationNode(NNImageNodePtr source, CNNBatchNormalizationDataSourcePtr data_source);
  const char* kind() const override { return "MPSCNNBatchNormalizationNode"; }
  CNNBatchNormalizationFlags flags = CNNBatchNormalizationFlags::kAutomatic;
  NNTrainingStyle training_style = NNTrainingStyle::kUpdateDeviceGPU;
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    visitor(data_source_);
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  CNNBatchNormalizationDataSourcePtr data_source_;
};

class TRAINGRAPH_API CNNBatchNormalizationGradientNode final : public NNGradientFilterNode {
 public:
  CNNBatchNormalizationGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                                    NNStateNodePtr gradient_state);
  const char* kind() const override { return "MPSCNNBatchNormalizationGradientNode"; }
  NNTrainingStyle training_style;
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
};

class TRAINGRAPH_API CNNSoftMaxNode : public NNFilterNode {
 public:
  explicit CNNSoftMaxNode(NNImageNodePtr source, bool logarithm = false);
  const char* kind() const override {
    return logarithm_ ? "MPSCNNLogSoftMaxNode" : "MPSCNNSoftMaxNode";
  }
  bool logarithm() const { return logarithm_; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  bool logarithm_;
};

class TRAINGRAPH_API CNNLogSoftMaxNode final : public CNNSoftMaxNode {
 public:
  explicit CNNLogSoftMaxNode(NNImageNodePtr source) : CNNSoftMaxNode(std::move(source), true) {}
};

// The source image is the forward node's result, not its source.
class TRAINGRAPH_API CNNSoftMaxGradientNode : public NNGradientFilterNode {
 public:
  CNNSoftMaxGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                         NNStateNodePtr gradient_state, bool logarithm = false);
  const char* kind() const override {
    return logarithm_ ? "MPSCNNLogSoftMaxGradientNode" : "MPSCNNSoftMaxGradientNode";
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  bool logarithm_;
};

class TRAINGRAPH_API CNNLogSoftMaxGradientNode final : public CNNSoftMaxGradientNode {
 public:
  CNNLogSoftMaxGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                            NNStateNodePtr gradient_state)
      : CNNSoftMaxGradientNode(std::move(source_gradient), std::move(source_image),
                               std::move(gradient_state), true) {}
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
