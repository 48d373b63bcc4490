// Graph nodes of the loss kernels in forward_loss.h. The loss is an image, and an
// NNInitialGradientNode behind it begins the training graph.
#pragma once

#include <traingraph/mps/loss.h>
#include <traingraph/mps/nodes.h>

namespace traingraph::mps {

// Predictions, labels and, if there is a third source, weights. gradient_filters() gives the
// gradient by the predictions and that by the labels, gradient_filter() the first; a training graph
// has the second where a node makes the labels.
class TRAINGRAPH_API NNForwardLossNode final : public NNFilterNode {
 public:
  // Raises InvalidArgument for another number of sources.
  NNForwardLossNode(std::vector<NNImageNodePtr> sources, const CNNLossDescriptor& descriptor);
  const char* kind() const override { return "MPSNNForwardLossNode"; }
  const CNNLossDescriptor& descriptor() const { return descriptor_; }
  // The descriptor's weight at each encoding; another one than before compiles anew.
  NNNumberCallback property_callback;
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    property_callback.visit_owned(visitor);
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
  bool has_main_gradient() const override { return true; }

 private:
  CNNLossDescriptor descriptor_;
};

// The incoming gradient, predictions, labels and perhaps weights; the state may be null.
class TRAINGRAPH_API NNLossGradientNode final : public NNGradientFilterNode {
 public:
  // Raises InvalidArgument for another number of sources, and for a state of a forward node with
  // another descriptor.
  NNLossGradientNode(std::vector<NNImageNodePtr> sources, const NNStateNodePtr& gradient_state,
                     const CNNLossDescriptor& descriptor, bool is_labels_gradient_filter);
  const char* kind() const override { return "MPSNNLossGradientNode"; }
  const CNNLossDescriptor& descriptor() const { return descriptor_; }
  bool is_labels_gradient_filter() const { return by_labels_; }
  // None: that of the state's node.
  NNNumberCallback property_callback;
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    property_callback.visit_owned(visitor);
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  CNNLossDescriptor descriptor_;
  bool by_labels_;
};

// Ones, of the source's size; training_graph() goes back from the source.
class TRAINGRAPH_API NNInitialGradientNode final : public NNFilterNode {
 public:
  explicit NNInitialGradientNode(NNImageNodePtr source);
  const char* kind() const override { return "MPSNNInitialGradientNode"; }
  bool begins_gradients() const override { return true; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
};

}  // namespace traingraph::mps
