// Convolution and its adjoints through cuDNN: deterministic algorithms only, the heuristic's first
// within bounds, never by stopwatch, so that every process takes the same one. Padding that differs
// between two sides goes through a padded copy of x in the workspace.
#include "backends/cuda/check.h"
#include "backends/cuda/convolution.h"
#include "backends/cuda/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    fail_call(call, static_cast<int>(status), cudnnGetErrorString(status));
  }
}

// A descriptor of cuDNN's, destroyed with its owner.
template <class D, cudnnStatus_t (*kCreate)(D*), cudnnStatus_t (*kDestroy)(D)>
class Descriptor {
 public:
  Descriptor() { check(kCreate(&handle_), "cuDNN's creation of a descriptor"); }
  ~Descriptor() { kDestroy(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator D() const { return handle_; }

 private:
  D handle_ = nullptr;
};

using Tensor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using Filter =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using Description = Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                               cudnnDestroyConvolutionDescriptor>;

// FFT and the larger Winograd tiles lose digits that exact float32 keeps.
bool exact(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm != CUDNN_CONVOLUTION_FWD_ALGO_FFT &&
         algorithm != CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING &&
         algorithm != CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
}
bool exact(cudnnConvolutionBwdDataAlgo_t algorithm) {
  return algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT &&
         algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING &&
         algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
}
bool exact(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  return algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT &&
         algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING &&
         algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

// Whether equal padding of `before` on both sides gives the same positions.
bool padding_fits(const ir::Window& w, int axis, std::int64_t source, std::int64_t positions) {
  const std::int64_t kernel = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
  const std::int64_t room = source + 2 * w.padding_before[axis] - kernel;
  return room >= 0 && room / w.stride[axis] + 1 == positions;
}

class CudnnConvolution final : public NodeKernel {
 public:
  CudnnConvolution(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node),
        op_(node.op),
        dnn_(context.dnn),
        type_(graph.type(node.outputs[0]).data_type) {
    const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
    const ConvolutionShapes shapes(graph, node);
    const bool wide = type_ == DataType::kFloat64;
    const cudnnDataType_t type = wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const ir::Window& w = a.window;
    Shape x = shapes.x;
    std::int64_t padding[2] = {w.padding_before[0], w.padding_before[1]};
    padded_ = !padding_fits(w, 0, x[2], shapes.y[2]) || !padding_fits(w, 1, x[3], shapes.y[3]);
    if (padded_) {
      frame_ = {x[0] * x[1],
                x[2],
                x[3],
                x[2] + w.padding_before[0] + w.padding_after[0],
                x[3] + w.padding_before[1] + w.padding_after[1],
                padding[0],
                padding[1]};
      x[2] = frame_.to_rows;
      x[3] = frame_.to_columns;
      padding[0] = padding[1] = 0;
      padded_bytes_ = static_cast<std::size_t>(element_count(x)) * element_bytes(type_);
      padded_bytes_ = (padded_bytes_ + 255) / 256 * 256;
    }
    describe(x_, type, x);
    describe(y_, type, shapes.y);
    check(cudnnSetFilter4dDescriptor(weights_, type, CUDNN_TENSOR_NCHW, as_int(shapes.weights[0]),
                                     as_int(shapes.weights[1]), as_int(shapes.weights[2]),
                                     as_int(shapes.weights[3])),
          "cudnnSetFilter4dDescriptor");
    check(cudnnSetConvolution2dDescriptor(description_, as_int(padding[0]), as_int(padding[1]),
                                          as_int(w.stride[0]), as_int(w.stride[1]),
                                          as_int(w.dilation[0]), as_int(w.dilation[1]),
                                          CUDNN_CROSS_CORRELATION, type),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(description_, as_int(a.groups)),
          "cudnnSetConvolutionGroupCount");
    set_math(context.tf32 && !wide ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
    found_ = choose(context.tf32 && !wide);
  }

  // Whether cuDNN has an algorithm within bounds.
  bool found() const { return found_; }
  std::size_t workspace_bytes() const override { return padded_bytes_ + library_bytes_; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    check(cudnnSetStream(dnn_, stream), "cudnnSetStream");
    const void* first = in<void>(pointers, 0);
    const void* second = in<void>(pointers, 1);
    void* result = out<void>(pointers, 0);
    std::byte* const scratch = workspace_bytes() > 0 ? workspace<std::byte>(pointers) : nullptr;
    void* const library = scratch + padded_bytes_;
    const double ones[2] = {1, 0};
    const float narrow_ones[2] = {1, 0};
    const bool wide = type_ == DataType::kFloat64;
    const void* const one = wide ? static_cast<const void*>(ones) : narrow_ones;
    const void* const zero = wide ? static_cast<const void*>(ones + 1) : narrow_ones + 1;
    if (op_ == ir::Op::convolution) {
      if (padded_) first = padded(first, scratch, stream);
      check(cudnnConvolutionForward(dnn_, one, x_, first, weights_, second, description_, forward_,
                                    library, library_bytes_, zero, y_, result),
            "cudnnConvolutionForward");
    } else if (op_ == ir::Op::convolution_gradient_data) {
      void* const dx = padded_ ? scratch : result;
      check(cudnnConvolutionBackwardData(dnn_, one, weights_, second, y_, first, description_,
                                         data_, library, library_bytes_, zero, x_, dx),
            "cudnnConvolutionBackwardData");
      if (padded_) enqueue_frame(type_, cut(), dx, result, stream);
    } else {
      if (padded_) second = padded(second, scratch, stream);
      check(cudnnConvolutionBackwardFilter(dnn_, one, x_, second, y_, first, description_, filter_,
                                           library, library_bytes_, zero, weights_, result),
            "cudnnConvolutionBackwardFilter");
    }
  }

 private:
  static int as_int(std::int64_t extent) { return static_cast<int>(extent); }

  static void describe(const Tensor& tensor, cudnnDataType_t type, const Shape& shape) {
    check(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, type, as_int(shape[0]),
                                     as_int(shape[1]), as_int(shape[2]), as_int(shape[3])),
          "cudnnSetTensor4dDescriptor");
  }

  void set_math(cudnnMathType_t math) {
    check(cudnnSetConvolutionMathType(description_, math), "cudnnSetConvolutionMathType");
  }

  const void* padded(const void* x, std::byte* scratch, cudaStream_t stream) const {
    enqueue_frame(type_, frame_, x, scratch, stream);
    return scratch;
  }

  // From padded planes back.
  Frame cut() const {
    return {frame_.planes,       frame_.to_rows, frame_.to_columns, frame_.from_rows,
            frame_.from_columns, -frame_.top,    -frame_.left};
  }

  bool choose(bool tf32) {
    if (op_ == ir::Op::convolution) {
      cudnnConvolutionFwdAlgoPerf_t list[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
      int count = 0;
      check(cudnnGetConvolutionForwardAlgorithm_v7(dnn_, x_, weights_, description_, y_,
                                                   CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, list),
            "cudnnGetConvolutionForwardAlgorithm_v7");
      return first_of(list, count, tf32, forward_, [&] {
        return cudnnGetConvolutionForwardWorkspaceSize(dnn_, x_, weights_, description_, y_,
                                                       forward_, &library_bytes_);
      });
    }
    if (op_ == ir::Op::convolution_gradient_data) {
      cudnnConvolutionBwdDataAlgoPerf_t list[CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT];
      int count = 0;
      check(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn_, weights_, y_, description_, x_,
                                                        CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                                        &count, list),
            "cudnnGetConvolutionBackwardDataAlgorithm_v7");
      return first_of(list, count, tf32, data_, [&] {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(dnn_, weights_, y_, description_, x_,
                                                            data_, &library_bytes_);
      });
    }
    cudnnConvolutionBwdFilterAlgoPerf_t list[CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT];
    int count = 0;
    check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn_, x_, y_, description_, weights_,
                                                        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
                                                        &count, list),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    return first_of(list, count, tf32, filter_, [&] {
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn_, x_, y_, description_, weights_,
                                                            filter_, &library_bytes_);
    });
  }

  // The first within the bound; where there is none, the one of least workspace.
  template <class P, class A, class F>
  bool first_of(const P* list, int count, bool tf32, A& algorithm, F&& workspace_size) {
    const P* least = nullptr;
    for (int k = 0; k < count; ++k) {
      const P& candidate = list[k];
      if (candidate.status != CUDNN_STATUS_SUCCESS || !exact(candidate.algo)) continue;
      if (candidate.determinism != CUDNN_DETERMINISTIC) continue;
      if (!tf32 && candidate.mathType != CUDNN_FMA_MATH) continue;
      if (least == nullptr || candidate.memory < least->memory) least = &candidate;
      if (candidate.memory > kMostWorkspace) continue;
      least = &candidate;
      break;
    }
    if (least == nullptr) return false;
    algorithm = least->algo;
    set_math(least->mathType);
    return workspace_size() == CUDNN_STATUS_SUCCESS;
  }

  ir::Op op_;
  cudnnHandle_t dnn_;
  DataType type_;
  bool padded_ = false, found_ = false;
  Frame frame_{};
  std::size_t padded_bytes_ = 0, library_bytes_ = 0;
  Tensor x_, y_;
  Filter weights_;
  Description description_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdDataAlgo_t data_{};
  cudnnConvolutionBwdFilterAlgo_t filter_{};
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
  return supports_floating(graph, node);
}

}  // namespace

std::unique_ptr<Kernel> make_cudnn_convolution(const ir::Graph& graph, const ir::Node& node,
                                               const Context& context) {
  auto kernel = std::make_unique<CudnnConvolution>(graph, node, context);
  if (kernel->found()) return kernel;
  return make_direct_convolution(graph, node, context);
}

std::vector<KernelEntry> cudnn_entries() {
  return {
      {ir::Op::convolution, supports, make_cudnn_convolution, nullptr, nullptr},
      {ir::Op::convolution_gradient_data, supports, make_cudnn_convolution, nullptr, nullptr},
      {ir::Op::convolution_gradient_weights, supports, make_cudnn_convolution, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
