#pragma once

#include <cudnn.h>

#include <memory>

#include "ir/graph.h"

// A cuDNN convolution or one of its adjoints, with its chosen engine.
namespace traingraph::cuda {

struct ConvolutionProblem {
  ir::Op op;  // convolution, _gradient_data or _gradient_weights
  DataType type;
  Shape x, weights, y;  // as in ConvolutionShapes
  ir::Window window;    // of equal padding on both sides of an axis
  bool channels_last;   // all three of them, else plain
  bool tf32;            // whether float32 products may round their operands
};

class CudnnPlan {
 public:
  // null if no engine is acceptable. A fixed rule chooses the engine, so every process takes the
  // same one. It is deterministic, exact if the problem is, on tensor cores otherwise, and the
  // first such engine of the heuristic.
  static std::unique_ptr<CudnnPlan> make(cudnnHandle_t dnn, const ConvolutionProblem& problem);
  virtual ~CudnnPlan() = default;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues on the handle's stream. One of the three operands is written.
  virtual void execute(const void* x, const void* weights, const void* y,
                       void* workspace) const = 0;

 protected:
  std::size_t workspace_bytes_ = 0;
};

}  // namespace traingraph::cuda
