#pragma once

#include <cudnn.h>

#include <memory>

#include "ir/graph.h"

// A convolution of cuDNN's or one of its adjoints, with the engine that runs it.
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
  // null where no engine is within bounds. Engines are taken by rule, so that every process takes
  // the same one: deterministic, exact where the problem is, on tensor cores where it is not, and
  // of the heuristic's order.
  static std::unique_ptr<CudnnPlan> make(cudnnHandle_t dnn, const ConvolutionProblem& problem);
  virtual ~CudnnPlan() = default;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues on the handle's stream; one of the three is written.
  virtual void execute(const void* x, const void* weights, const void* y,
                       void* workspace) const = 0;

 protected:
  std::size_t workspace_bytes_ = 0;
};

}  // namespace traingraph::cuda
