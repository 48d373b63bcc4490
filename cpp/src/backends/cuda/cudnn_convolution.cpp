// Convolution and its adjoints through cuDNN. What its engines do not take goes through copies in
// the workspace: of x where the padding differs between two sides, of the weights where the source
// has padded channels.
#include "backends/cuda/check.h"
#include "backends/cuda/convolution.h"
#include "backends/cuda/cudnn_plan.h"
#include "backends/cuda/layouts.h"
#include "backends/cuda/node_kernel.h"

namespace traingraph::cuda {
namespace {

// Whether equal padding of `before` on both sides gives the same positions.
bool padding_fits(const ir::Window& w, int axis, std::int64_t source, std::int64_t positions) {
  const std::int64_t kernel = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
  const std::int64_t room = source + 2 * w.padding_before[axis] - kernel;
  return room >= 0 && room / w.stride[axis] + 1 == positions;
}

// A larger copy of an operand in the workspace.
struct Copy {
  bool there = false;
  Frame frame{};  // from the operand to the copy
  std::size_t offset = 0;

  // From the copy back.
  Frame back() const {
    return {frame.planes,       frame.to_rows, frame.to_columns, frame.from_rows,
            frame.from_columns, -frame.top,    -frame.left};
  }
};

// The problem as cuDNN is given it, and what is copied for that.
struct Prepared {
  ConvolutionProblem problem;
  Copy x, weights;
  std::size_t bytes = 0;  // of the copies

  Prepared(const ir::Graph& graph, const ir::Node& node) {
    const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
    const ConvolutionShapes shapes(graph, node);
    const bool tensor_cores = uses_tensor_cores(graph, node);
    problem = {node.op,      graph.type(node.outputs[0]).data_type,
               shapes.x,     shapes.weights,
               shapes.y,     a.window,
               tensor_cores, tensor_cores};
    if (tensor_cores) pad_channels(convolution_source(graph, node));
    const ir::Window& w = a.window;
    if (!padding_fits(w, 0, shapes.x[2], shapes.y[2]) ||
        !padding_fits(w, 1, shapes.x[3], shapes.y[3])) {
      pad_positions();
    }
  }

 private:
  void pad_channels(const ir::Layout& source) {
    if (source.blocks.empty()) return;
    Shape& weights = problem.weights;
    const std::int64_t channels = weights[1];
    problem.x[1] = weights[1] = source.blocks[0].size;
    copy(weights, {weights[0] * weights[2] * weights[3], 1, channels, 1, weights[1], 0, 0},
         this->weights);
  }

  void pad_positions() {
    ir::Window& w = problem.window;
    const Shape before = problem.x;
    problem.x[2] += w.padding_before[0] + w.padding_after[0];
    problem.x[3] += w.padding_before[1] + w.padding_after[1];
    const std::int64_t planes = problem.channels_last ? before[0] : before[0] * before[1];
    const std::int64_t inner = problem.channels_last ? before[1] : 1;
    copy(problem.x,
         {planes, before[2], before[3] * inner, problem.x[2], problem.x[3] * inner,
          w.padding_before[0], w.padding_before[1] * inner},
         x);
    std::fill(w.padding_before, w.padding_before + 2, 0);
    std::fill(w.padding_after, w.padding_after + 2, 0);
  }

  void copy(const Shape& shape, const Frame& frame, Copy& to) {
    to = {true, frame, bytes};
    bytes += static_cast<std::size_t>(element_count(shape)) * element_bytes(problem.type);
    bytes = (bytes + 255) / 256 * 256;
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
    return prepared_.bytes + plan_->workspace_bytes();
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const cudnnStatus_t status = cudnnSetStream(dnn_, stream);
    if (status != CUDNN_STATUS_SUCCESS) {
      fail_call("cudnnSetStream", static_cast<int>(status), cudnnGetErrorString(status));
    }
    std::byte* const scratch = workspace_bytes() > 0 ? workspace<std::byte>(pointers) : nullptr;
    const auto* const first = in<std::byte>(pointers, 0);
    const auto* const second = in<std::byte>(pointers, 1);
    auto* const result = out<std::byte>(pointers, 0);
    const ir::Op op = prepared_.problem.op;
    if (op == ir::Op::convolution) {
      execute(given(prepared_.x, first, scratch, stream),
              given(prepared_.weights, second, scratch, stream), result, scratch);
    } else if (op == ir::Op::convolution_gradient_data) {
      execute(wanted(prepared_.x, result, scratch),
              given(prepared_.weights, second, scratch, stream), first, scratch);
      take_back(prepared_.x, result, scratch, stream);
    } else {
      execute(given(prepared_.x, second, scratch, stream),
              wanted(prepared_.weights, result, scratch), first, scratch);
      take_back(prepared_.weights, result, scratch, stream);
    }
  }

 private:
  std::size_t element() const { return element_bytes(prepared_.problem.type); }

  // An operand as the engine reads it.
  const std::byte* given(const Copy& copy, const std::byte* operand, std::byte* scratch,
                         cudaStream_t stream) const {
    if (!copy.there) return operand;
    enqueue_frame(element(), copy.frame, operand, scratch + copy.offset, stream);
    return scratch + copy.offset;
  }
  // Where the engine writes the result, and how that comes into it.
  static std::byte* wanted(const Copy& copy, std::byte* result, std::byte* scratch) {
    return copy.there ? scratch + copy.offset : result;
  }
  void take_back(const Copy& copy, std::byte* result, const std::byte* scratch,
                 cudaStream_t stream) const {
    if (copy.there) {
      enqueue_frame(element(), copy.back(), scratch + copy.offset, result, stream);
    }
  }

  void execute(const std::byte* x, const std::byte* weights, const std::byte* y,
               std::byte* scratch) const {
    plan_->execute(x, weights, y, scratch == nullptr ? nullptr : scratch + prepared_.bytes);
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
