#pragma once

#include <memory>

#include <traingraph/mps/kernel.h>

#include "mps/graph_plan.h"

namespace traingraph::mps {

// A forward kernel; makes its state where somebody reads it.
class ForwardStep : public GraphStep {
 public:
  ForwardStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNKernel> kernel);
  void count_reads(GraphPlan& plan) override;
  void encode(GraphEncoding& e) override;

  const std::shared_ptr<CNNKernel> kernel;

 protected:
  std::size_t source_, result_, state_;  // places
};

// A gradient kernel; configured from the state at each encoding.
class GradientStep : public GraphStep {
 public:
  GradientStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNGradientKernel> kernel);
  void count_reads(GraphPlan& plan) override;
  void encode(GraphEncoding& e) override;

  const std::shared_ptr<CNNGradientKernel> kernel;

 protected:
  std::size_t state_, gradient_, source_, result_;  // places
};

}  // namespace traingraph::mps
