#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "backends/metal/device/kernel.h"

// Which values stay images from one kernel of a run to the next ones: decided once per order.
namespace traingraph::metal {

// What one kernel of a run does with its images. A slot holds the images of one value in that run.
struct ImageStep {
  struct Source {
    std::size_t slot;
    int reads;  // of the images that are made now, of what is in memory; 0: they are there already
  };
  struct Result {
    std::size_t slot;
    int reads;       // by later kernels, and by the copy to memory
    bool to_memory;  // somebody reads the bytes
  };
  std::vector<Source> sources;  // one for each of ImageOperands
  std::vector<Result> results;
};

// A step that shares no images: all sources come from memory, and all results go there.
ImageStep step_alone(const ImageOperands& operands);

// Of one run, by position in its order: no step where a kernel works on memory.
struct ImagePlan {
  std::vector<std::optional<ImageStep>> steps;
  std::size_t slots = 0;
};

// Knows who reads each value of a graph.
class ImagePlanner {
 public:
  explicit ImagePlanner(const ir::Graph& graph);
  // Kernels by node number, null for views.
  ImagePlan plan(const ir::NodeId* order, std::size_t count,
                 const std::vector<std::unique_ptr<Kernel>>& kernels) const;

 private:
  // By value: the operands of nodes that it is, and whether it is read or replaced elsewhere.
  std::vector<int> operands_;
  std::vector<bool> outside_;
};

}  // namespace traingraph::metal
