// Readable results of the last forward pass and gradients of the last gradient pass.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/data/device_staging.h"
#include "graph/program/compiled_graph.h"
#include "graph/run/job.h"

namespace traingraph {

// Touched only by whoever holds the stream.
class ReadableResults {
 public:
  explicit ReadableResults(const Backend& backend) : backend_(backend) {}

  // Whether what the job goes on with is there: the pass before it, the micro-batches of its step.
  bool has_before(const Job& job) const;
  // The job begins to run; its arrays are kept for as long as its pass is.
  void begin(Job& job);
  // Its gradients can be read.
  void end(const Job& job);
  // Passes of this program, or all, have left nothing.
  void drop(const CompiledPtr& program) { passes_.drop(program); }
  void drop_all() { passes_.clear(); }
  // Where the newest step stands that has run.
  const StepPosition& reached() const { return reached_; }
  void resume(const StepPosition& position) { reached_ = position; }
  // Nothing goes on with this step any more.
  void give_up(std::uint64_t step);

  // From now on the handle means this gradient.
  void know(const GradientHandle& handle) { handles_[handle.gradient.get()] = handle.of.get(); }
  // A copy of a tensor's value, or of the gradient that a handle means.
  TensorData copy(const Tensor& tensor) const;
  TensorData copy_of_gradient(const Tensor& of) const;
  // For what the loss of a program compares, prediction and label: memory, and copies of what the
  // last forward has left.
  static Scored room_for_scored(const Job& job);
  void copy_scored(const Scored& to) const;
  // The value where it lies, which holds the memory: the arena, or the array that was given.
  TensorData view(const Tensor& tensor, const std::shared_ptr<std::byte>& arena) const;

 private:
  // A value, and which run has left it.
  struct Readable {
    const CompiledGraph* graph;
    Run run;
    ir::ValueId value;
    std::int64_t rows;
  };
  Readable result(const Tensor& tensor) const;
  Readable gradient(const Tensor& of) const;
  Readable find(const Tensor& tensor) const;
  static LeftValue left(const Readable& readable) {
    return {*readable.graph, readable.run, readable.value, readable.rows};
  }
  TensorData copy_out(const Readable& readable) const;
  std::shared_ptr<const void> keeper_of(const Readable& readable,
                                        const std::shared_ptr<std::byte>& arena) const;

  const Backend& backend_;
  Passes passes_;
  StepPosition reached_;
  std::uint64_t given_up_ = 0;  // the newest such step
  Run forward_run_ = Run::forward;
  Run gradient_run_ = Run::gradient;
  // What the programs' addresses point to, by the pass that reads it.
  std::vector<BoundArray> forward_arrays_;
  std::vector<BoundArray> gradient_arrays_;
  std::map<const Tensor*, const Tensor*> handles_;  // of gradients, to what they are gradients of
};

}  // namespace traingraph
