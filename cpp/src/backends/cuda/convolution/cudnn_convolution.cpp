// Convolution and its adjoints through cuDNN. Cases that its engines refuse use copies in the
// workspace: x if the padding differs between two sides, x and the weights for space-to-depth.
#include <algorithm>
#include <optional>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/convolution/cudnn_plan.h"
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/convolution/space_to_depth.h"
#include "backends/cuda/kernel/check_library.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

// Whether symmetric padding of `before` gives the same positions.
bool padding_fits(const ir::Window& w, int axis, std::int64_t source, std::int64_t positions) {
  const std::int64_t kernel = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
  const std::int64_t room = source + 2 * w.padding_before[axis] - kernel;
  return room >= 0 && room / w.stride[axis] + 1 == positions;
}

// The problem that cuDNN solves, and how its operands are made from the node's.
struct Prepared {
  ConvolutionProblem problem;
  std::optional<SpaceToDepth> packed;          // x and the weights are copies
  std::optional<Frame> frame;                  // x is a larger copy
  std::size_t x_bytes = 0, weights_bytes = 0;  // of the copies

  Prepared(const ir::Graph& graph, const ir::Node& node) {
    const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
    const ConvolutionShapes shapes(graph, node);
    const bool tensor_cores = uses_tensor_cores(graph, node);
    problem = {node.op,      graph.type(node.outputs[0]).data_type,
               shapes.x,     shapes.weights,
               shapes.y,     a.window,
               tensor_cores, tensor_cores};
    const ir::Window& w = a.window;
    if (uses_space_to_depth(graph, node)) {
      packed = space_to_depth(graph, node);
      problem.x = packed->source;
      problem.weights = packed->weights;
      problem.window = {};
      x_bytes = bytes_of(problem.x);
      weights_bytes = bytes_of(problem.weights);
    } else if (!padding_fits(w, 0, shapes.x[2], shapes.y[2]) ||
               !padding_fits(w, 1, shapes.x[3], shapes.y[3])) {
      pad_positions();
      x_bytes = bytes_of(problem.x);
    }
  }

 private:
  void pad_positions() {
    ir::Window& w = problem.window;
    const Shape before = problem.x;
    problem.x[2] += w.padding_before[0] + w.padding_after[0];
    problem.x[3] += w.padding_before[1] + w.padding_after[1];
    const std::int64_t planes = problem.channels_last ? before[0] : before[0] * before[1];
    const std::int64_t inner = problem.channels_last ? before[1] : 1;
    frame = {planes,
             before[2],
             before[3] * inner,
             problem.x[2],
             problem.x[3] * inner,
             w.padding_before[0],
             w.padding_before[1] * inner};
    std::fill(w.padding_before, w.padding_before + 2, 0);
    std::fill(w.padding_after, w.padding_after + 2, 0);
  }

  std::size_t bytes_of(const Shape& shape) const {
    return bytes_of_copy(shape, element_bytes(problem.type));
  }
};

class CudnnConvolution final : public NodeKernel {
 public:
  CudnnConvolution(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node),
        dnn_(context.dnn),
        prepared_(graph, node),
        plan_(CudnnPlan::make(context.dnn, prepared_.problem)) {}

  // Whether cuDNN has an engine within bounds.
  bool found() const { return plan_ != nullptr; }
  std::size_t workspace_bytes() const override {
    return prepared_.x_bytes + prepared_.weights_bytes + plan_->workspace_bytes();
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    check(cudnnSetStream(dnn_, stream), "cudnnSetStream");
    std::byte* const scratch = workspace_bytes() > 0 ? workspace<std::byte>(pointers) : nullptr;
    // The addresses that the engine reads for x and the weights: the operands or their copies.
    std::byte* const x_copy = scratch;
    std::byte* const weights_copy = scratch + prepared_.x_bytes;
    std::byte* const library = weights_copy + prepared_.weights_bytes;
    const auto* const first = in<std::byte>(pointers, 0);
    const auto* const second = in<std::byte>(pointers, 1);
    auto* const result = out<std::byte>(pointers, 0);
    const auto& [problem, packed, frame, x_bytes, weights_bytes] = prepared_;
    const bool copies_x = packed || frame;
    switch (problem.op) {
      case ir::Op::convolution:
        if (copies_x) copy_source(first, x_copy, stream);
        if (packed) enqueue_weights(*packed, element(), second, weights_copy, stream);
        return plan_->execute(copies_x ? x_copy : first, packed ? weights_copy : second, result,
                              library);
      case ir::Op::convolution_gradient_data:
        plan_->execute(frame ? x_copy : result, second, first, library);
        if (frame) enqueue_frame(element(), frame->back(), x_copy, result, stream);
        return;
      default:
        if (copies_x) copy_source(second, x_copy, stream);
        plan_->execute(copies_x ? x_copy : second, packed ? weights_copy : result, first, library);
        if (packed) enqueue_weights_back(*packed, element(), weights_copy, result, stream);
    }
  }

 private:
  std::size_t element() const { return element_bytes(prepared_.problem.type); }

  void copy_source(const std::byte* x, std::byte* to, cudaStream_t stream) const {
    if (prepared_.packed) {
      enqueue_source(*prepared_.packed, element(), x, to, stream);
    } else {
      enqueue_frame(element(), *prepared_.frame, x, to, stream);
    }
  }

  cudnnHandle_t dnn_;
  Prepared prepared_;
  std::unique_ptr<CudnnPlan> plan_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (!a.epilogue.empty()) return Support::no("cuDNN: an epilogue");
  const ConvolutionShapes shapes(graph, node);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const Shape& shape : {shapes.x, shapes.weights, shapes.y}) {
    const std::int64_t count = element_count(shape);
    if (count >= kMost) return Support::no("cuDNN: 2^31 elements or more");
    if (count == 0) return Support::no("cuDNN: an empty tensor");
  }
  return supports_floating_or_half(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  auto kernel = std::make_unique<CudnnConvolution>(graph, node, context);
  if (kernel->found()) return kernel;
  return make_direct_convolution(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> cudnn_entries() {
  return {{ir::Op::convolution, supports, make, convolution_layouts, nullptr},
          {ir::Op::convolution_gradient_data, supports, make, convolution_layouts, nullptr},
          {ir::Op::convolution_gradient_weights, supports, make, convolution_layouts, nullptr}};
}

}  // namespace traingraph::cuda
