#pragma once

#include <memory>

#include <traingraph/mps/kernel.h>

#include "mps/nodes/graph_plan.h"

namespace traingraph::mps {

// A forward kernel; makes its state where somebody reads it.
class ForwardStep : public GraphStep {
 public:
  ForwardStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNKernel> kernel);
  void count_reads(GraphPlan& plan) override;
  void encode(GraphEncoding& e) override;
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(kernel); }
  // A padding policy of the program's own is asked each time.
  bool repeats() const override { return kernel->padding().own() == nullptr; }

  const std::shared_ptr<CNNKernel> kernel;

 protected:
  // What the kernel is told at each encoding.
  virtual void prepare(const ImageBatch& sources, const ImageBatch& results);
  void make_states(GraphEncoding& e);

  std::size_t source_, result_;           // places
  std::size_t state_ = GraphPlan::kNone;  // where there is one
};

// A gradient kernel; configured from the state at each encoding.
class GradientStep : public GraphStep {
 public:
  GradientStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNGradientKernel> kernel);
  void count_reads(GraphPlan& plan) override;
  void encode(GraphEncoding& e) override;
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(kernel); }

  const std::shared_ptr<CNNGradientKernel> kernel;

 protected:
  std::size_t state_, gradient_, source_, result_;  // places
};

// One whose gradients a data source is handed, where its style says.
class TrainedGradientStep : public GradientStep {
 public:
  TrainedGradientStep(GraphPlan& plan, NNFilterNode& node,
                      std::shared_ptr<CNNGradientKernel> kernel, NNTrainingStyle style);
  std::size_t updated_state() const final;
  bool repeats() const override { return style_ != NNTrainingStyle::kUpdateDeviceCPU; }

 protected:
  NNTrainingStyle style_;
};

}  // namespace traingraph::mps
