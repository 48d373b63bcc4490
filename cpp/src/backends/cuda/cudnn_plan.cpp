#include "backends/cuda/cudnn_plan.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/check.h"

namespace traingraph::cuda {
namespace {

constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;
constexpr std::int64_t kAlignment = 16;  // of every address
constexpr int kMostEngines = 64;         // that the heuristic is asked for

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    fail_call(call, static_cast<int>(status), cudnnGetErrorString(status));
  }
}

// An object of cuDNN's graph interface: attributes are set, then it is finalized.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &handle_), "cudnnBackendCreateDescriptor");
  }
  ~Descriptor() {
    if (handle_ != nullptr) static_cast<void>(cudnnBackendDestroyDescriptor(handle_));
  }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cudnnBackendDescriptor_t handle() const { return handle_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const std::vector<T>& values) {
    check(cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(values.size()),
                                   values.data()),
          "cudnnBackendSetAttribute");
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    check(cudnnBackendSetAttribute(handle_, name, type, 1, &value), "cudnnBackendSetAttribute");
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.handle_);
  }
  // Up to values.size() of them; returns how many there are.
  template <class T>
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::vector<T>& values) const {
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(handle_, name, type, static_cast<std::int64_t>(values.size()),
                                   &count, values.data()),
          "cudnnBackendGetAttribute");
    return std::min(count, static_cast<std::int64_t>(values.size()));
  }
  void finalize(const char* what) { check(cudnnBackendFinalize(handle_), what); }
  bool finalizes() { return cudnnBackendFinalize(handle_) == CUDNN_STATUS_SUCCESS; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

enum Operand : std::int64_t { kX = 1, kWeights, kY };

cudnnDataType_t cudnn_type(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    case DataType::kFloat16:
      return CUDNN_DATA_HALF;
    case DataType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

Descriptor described(const ConvolutionProblem& problem, Operand operand, const Shape& shape) {
  const std::int64_t c = shape[1], h = shape[2], w = shape[3];
  const Shape strides =
      problem.channels_last ? Shape{c * h * w, 1, w * c, c} : Shape{c * h * w, h * w, w, 1};
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(operand));
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, cudnn_type(problem.type));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  tensor.finalize("the description of a tensor");
  return tensor;
}

Descriptor described(const ConvolutionProblem& problem) {
  const ir::Window& w = problem.window;
  const auto both = [](const std::int64_t (&values)[2]) { return Shape{values[0], values[1]}; };
  const bool wide = problem.type == DataType::kFloat64;
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                  wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, both(w.padding_before));
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, both(w.padding_before));
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, both(w.stride));
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, both(w.dilation));
  convolution.finalize("the description of a convolution");
  return convolution;
}

// The names of an op's attributes.
struct Attributes {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weights, y, convolution, alpha, beta;
};

Attributes attributes_of(ir::Op op) {
  switch (op) {
    case ir::Op::convolution:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ir::Op::convolution_gradient_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

// The problem as cuDNN's graph of one operation.
class Operation {
 public:
  Operation(cudnnHandle_t dnn, const ConvolutionProblem& problem)
      : x_(described(problem, kX, problem.x)),
        weights_(described(problem, kWeights, problem.weights)),
        y_(described(problem, kY, problem.y)),
        convolution_(described(problem)),
        operation_(attributes_of(problem.op).type),
        graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const Attributes names = attributes_of(problem.op);
    operation_.set(names.x, x_);
    operation_.set(names.weights, weights_);
    operation_.set(names.y, y_);
    operation_.set(names.convolution, convolution_);
    if (problem.type == DataType::kFloat64) {
      operation_.set(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
      operation_.set(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
    } else {
      operation_.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
      operation_.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
    }
    operation_.finalize("an operation of cuDNN's");
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, dnn);
    graph_.finalize("an operation graph of cuDNN's");
  }

  // The heuristic's engines with their settings, best first; none where it knows of none.
  std::vector<Descriptor> engines(cudnnBackendHeurMode_t mode) const {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (!heuristic.finalizes()) return {};
    std::vector<Descriptor> engines;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int k = 0; k < kMostEngines; ++k) {
      engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      handles.push_back(engines.back().handle());
    }
    const std::int64_t count =
        heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles);
    engines.erase(engines.begin() + count, engines.end());
    return engines;
  }

 private:
  Descriptor x_, weights_, y_, convolution_, operation_, graph_;
};

// Whether what an engine notes about its numbers is within what the problem allows.
bool allowed(const Descriptor& engine_config, const ConvolutionProblem& problem) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> handle = {engine.handle()};
  engine_config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, handle);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const std::int64_t count =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  const bool exact =
      problem.type == DataType::kFloat64 || (problem.type == DataType::kFloat32 && !problem.tf32);
  return std::all_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return !exact || problem.type == DataType::kFloat64;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return !exact;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        return true;
      default:  // FFT and larger Winograd tiles lose digits; others depend on the run
        return false;
    }
  });
}

class Plan final : public CudnnPlan {
 public:
  Plan(cudnnHandle_t dnn, Descriptor plan, std::int64_t workspace)
      : dnn_(dnn), plan_(std::move(plan)) {
    workspace_bytes_ = static_cast<std::size_t>(workspace);
  }

  void execute(const void* x, const void* weights, const void* y, void* workspace) const override {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, Shape{kX, kWeights, kY});
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::vector<const void*>{x, weights, y});
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack.finalize("the addresses of a convolution");
    check(cudnnBackendExecute(dnn_, plan_.handle(), pack.handle()), "cudnnBackendExecute");
  }

 private:
  cudnnHandle_t dnn_;
  Descriptor plan_;
};

}  // namespace

std::unique_ptr<CudnnPlan> CudnnPlan::make(cudnnHandle_t dnn, const ConvolutionProblem& problem) {
  const Operation operation(dnn, problem);
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Descriptor& engine : operation.engines(mode)) {
      if (!allowed(engine, problem)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, dnn);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
      if (!plan.finalizes()) continue;
      std::vector<std::int64_t> workspace = {0};
      plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, workspace);
      if (workspace[0] > kMostWorkspace) continue;
      return std::make_unique<Plan>(dnn, std::move(plan), workspace[0]);
    }
  }
  return nullptr;
}

}  // namespace traingraph::cuda
