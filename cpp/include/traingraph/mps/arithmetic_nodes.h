#pragma once

#include <optional>

#include <traingraph/mps/arithmetic.h>
#include <traingraph/mps/nodes.h>

// Nodes with several sources: arithmetic, and concatenation.
namespace traingraph::mps {

// Two sources. There is no gradient of a division or comparison.
class TRAINGRAPH_API NNBinaryArithmeticNode : public NNFilterNode {
 public:
  const char* kind() const override;
  CNNArithmeticOperation operation() const { return operation_; }
  // Those of the kernel in graphs made from now on.
  CNNArithmeticParameters parameters;
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  NNBinaryArithmeticNode(NNImageNodePtr left, NNImageNodePtr right,
                         CNNArithmeticOperation operation);
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  CNNArithmeticOperation operation_;
};

// The gradient of one of the two sources; the source image is the other one. Where it is the
// incoming gradient itself, nothing is encoded.
class TRAINGRAPH_API NNArithmeticGradientNode : public NNGradientFilterNode {
 public:
  const char* kind() const override;
  bool is_secondary_source_filter() const { return secondary_; }
  // As gradient_parameters() gives them from the forward node, unless they are set.
  CNNArithmeticParameters parameters() const;
  void set_parameters(const CNNArithmeticParameters& value) { own_ = value; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  NNArithmeticGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                           NNStateNodePtr gradient_state, bool is_secondary_source_filter,
                           CNNArithmeticOperation operation);

 private:
  bool is_the_gradient_itself();

  bool secondary_;
  CNNArithmeticOperation operation_;
  std::optional<CNNArithmeticParameters> own_;
};

template <CNNArithmeticOperation kOperation>
class TRAINGRAPH_API NNArithmeticNodeOf final : public NNBinaryArithmeticNode {
 public:
  NNArithmeticNodeOf(NNImageNodePtr left, NNImageNodePtr right)
      : NNBinaryArithmeticNode(std::move(left), std::move(right), kOperation) {}
};
using NNAdditionNode = NNArithmeticNodeOf<CNNArithmeticOperation::kAdd>;
using NNSubtractionNode = NNArithmeticNodeOf<CNNArithmeticOperation::kSubtract>;
using NNMultiplicationNode = NNArithmeticNodeOf<CNNArithmeticOperation::kMultiply>;
using NNDivisionNode = NNArithmeticNodeOf<CNNArithmeticOperation::kDivide>;
using NNComparisonNode = NNArithmeticNodeOf<CNNArithmeticOperation::kCompare>;

template <CNNArithmeticOperation kOperation>
class TRAINGRAPH_API NNArithmeticGradientNodeOf final : public NNArithmeticGradientNode {
  static_assert(kOperation < CNNArithmeticOperation::kDivide, "there is no such gradient");

 public:
  NNArithmeticGradientNodeOf(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                             NNStateNodePtr gradient_state, bool is_secondary_source_filter)
      : NNArithmeticGradientNode(std::move(source_gradient), std::move(source_image),
                                 std::move(gradient_state), is_secondary_source_filter,
                                 kOperation) {}
};
using NNAdditionGradientNode = NNArithmeticGradientNodeOf<CNNArithmeticOperation::kAdd>;
using NNSubtractionGradientNode = NNArithmeticGradientNodeOf<CNNArithmeticOperation::kSubtract>;
using NNMultiplicationGradientNode = NNArithmeticGradientNodeOf<CNNArithmeticOperation::kMultiply>;

// The sources' channels one after another. It has a state for each source.
class TRAINGRAPH_API NNConcatenationNode final : public NNFilterNode {
 public:
  explicit NNConcatenationNode(std::vector<NNImageNodePtr> sources);
  const char* kind() const override { return "MPSNNConcatenationNode"; }
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
