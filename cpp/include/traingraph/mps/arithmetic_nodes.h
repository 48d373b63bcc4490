// Graph nodes with several sources: binary arithmetic and channel concatenation, and their gradient
// nodes.
#pragma once

#include <optional>

#include <traingraph/mps/arithmetic.h>
#include <traingraph/mps/nodes.h>

namespace traingraph::mps {

// By operation; there is no gradient of a division or comparison.
struct ArithmeticNames {
  const char* forward;
  const char* gradient;
};
inline constexpr ArithmeticNames kArithmeticNames[] = {
    {"MPSNNAdditionNode", "MPSNNAdditionGradientNode"},
    {"MPSNNSubtractionNode", "MPSNNSubtractionGradientNode"},
    {"MPSNNMultiplicationNode", "MPSNNMultiplicationGradientNode"},
    {"MPSNNDivisionNode", nullptr},
    {"MPSNNComparisonNode", nullptr},
};

// Two sources.
class TRAINGRAPH_API NNBinaryArithmeticNode : public NNFilterNode {
 public:
  NNBinaryArithmeticNode(NNImageNodePtr left, NNImageNodePtr right,
                         CNNArithmeticOperation operation);
  const char* kind() const override;
  CNNArithmeticOperation operation() const { return operation_; }
  const CNNArithmeticParameters& parameters() const { return parameters_; }
  // Those of the kernel in graphs made from now on.
  void set_parameters(const CNNArithmeticParameters& value) { parameters_ = value; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  CNNArithmeticOperation operation_;
  CNNArithmeticParameters parameters_;
};

// The gradient of one of the two sources; the source image is the other one. Where it is the
// incoming gradient itself, nothing is encoded.
class TRAINGRAPH_API NNArithmeticGradientNode final : public NNGradientFilterNode {
 public:
  NNArithmeticGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                           NNStateNodePtr gradient_state, bool is_secondary_source_filter,
                           CNNArithmeticOperation operation);
  const char* kind() const override;
  bool is_secondary_source_filter() const { return secondary_; }
  // As gradient_parameters() gives them from the forward node, unless they are set.
  CNNArithmeticParameters parameters() const;
  void set_parameters(const CNNArithmeticParameters& value) { own_ = value; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  const NNBinaryArithmeticNode& forward() const;
  bool is_the_gradient_itself();

  bool secondary_;
  CNNArithmeticOperation operation_;
  std::optional<CNNArithmeticParameters> own_;
};

template <CNNArithmeticOperation kOperation>
class NNArithmeticNodeOf final : public NNBinaryArithmeticNode {
 public:
  NNArithmeticNodeOf(NNImageNodePtr left, NNImageNodePtr right)
      : NNBinaryArithmeticNode(std::move(left), std::move(right), kOperation) {}
};
using NNAdditionNode = NNArithmeticNodeOf<CNNArithmeticOperation::kAdd>;
using NNSubtractionNode = NNArithmeticNodeOf<CNNArithmeticOperation::kSubtract>;
using NNMultiplicationNode = NNArithmeticNodeOf<CNNArithmeticOperation::kMultiply>;
using NNDivisionNode = NNArithmeticNodeOf<CNNArithmeticOperation::kDivide>;
using NNComparisonNode = NNArithmeticNodeOf<CNNArithmeticOperation::kCompare>;

// The sources' channels one after another, each source's with zeros behind them up to a multiple of
// four. It has a state for each source.
class TRAINGRAPH_API NNConcatenationNode final : public NNFilterNode {
 public:
  explicit NNConcatenationNode(std::vector<NNImageNodePtr> sources);
  const char* kind() const override { return "MPSNNConcatenationNode"; }
  // Without the zeros, in graphs made from now on. An addition to Apple's node.
  bool packs_channels = false;
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

// The channels of the source whose state is given. The source image is not read.
class TRAINGRAPH_API NNConcatenationGradientNode final : public NNGradientFilterNode {
 public:
  NNConcatenationGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                              NNStateNodePtr gradient_state);
  const char* kind() const override { return "MPSNNConcatenationGradientNode"; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
};

}  // namespace traingraph::mps
