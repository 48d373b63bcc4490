// Chooses a cuDNN engine for a convolution by rule and executes it through cuDNN's graph interface.
#include "backends/cuda/convolution/cudnn_plan.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/kernel/check_library.h"
#include "backends/cuda/kernel/kernel.h"

namespace traingraph::cuda {
namespace {

constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;
constexpr int kMostEngines = 64;  // requested from the heuristic

// A descriptor of cuDNN's graph interface. Attributes are set first, then it is finalized.
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
  // Reads up to values.size() values and returns how many there are.
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

// cuDNN's attribute names for an op.
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

// The problem as a cuDNN operation graph with one operation.
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

  // The heuristic's engine configurations, best first; empty if it knows none.
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

std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  notes.resize(static_cast<std::size_t>(
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes)));
  return notes;
}

bool is_exact(const ConvolutionProblem& problem) {
  return problem.type == DataType::kFloat64 ||
         (problem.type == DataType::kFloat32 && !problem.tf32);
}

// Whether the problem allows an engine with these numerical notes.
bool allowed(const std::vector<cudnnBackendNumericalNote_t>& notes,
             const ConvolutionProblem& problem) {
  return std::all_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return !is_exact(problem) || problem.type == DataType::kFloat64;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return !is_exact(problem);
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        return true;
      default:  // FFT and larger Winograd tiles lose digits; other notes mean nondeterminism
        return false;
    }
  });
}

// Blocks per cluster in this configuration; 1 if it does not say.
std::int64_t cluster_blocks(const Descriptor& configuration) {
  constexpr std::size_t kMostKnobs = 64;
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::size_t k = 0; k < kMostKnobs; ++k) {
    knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    handles.push_back(knobs.back().handle());
  }
  const std::int64_t count =
      configuration.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles);
  std::int64_t blocks = 1;
  for (std::int64_t k = 0; k < count; ++k) {
    const Descriptor& knob = knobs[static_cast<std::size_t>(k)];
    std::vector<cudnnBackendKnobType_t> type(1);
    std::vector<std::int64_t> value = {1};
    knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type);
    knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value);
    const bool is_extent =
        type[0] == CUDNN_KNOB_TYPE_TILE_CGA_M || type[0] == CUDNN_KNOB_TYPE_TILE_CGA_N;
    if (is_extent) blocks *= std::max<std::int64_t>(1, value[0]);
  }
  return blocks;
}

// An engine of the heuristic's that can run the problem.
struct Candidate {
  Descriptor plan;
  std::int64_t workspace;
  std::int64_t engine;  // its number
  std::int64_t cluster_blocks;
  bool tensor_cores;
};

// Only so many candidates are considered: later ones are seldom good, and each takes time to make.
constexpr std::size_t kMostCandidates = 5;

// Candidates on tensor cores come first. Exact problems take the heuristic's first.
std::vector<Candidate> candidates(cudnnHandle_t dnn, const ConvolutionProblem& problem,
                                  const std::vector<Descriptor>& configurations) {
  std::vector<Candidate> result;
  std::size_t on_tensor_cores = 0;
  for (const Descriptor& configuration : configurations) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    std::vector<cudnnBackendDescriptor_t> handle = {engine.handle()};
    configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, handle);
    const std::vector<cudnnBackendNumericalNote_t> notes = notes_of(engine);
    if (!allowed(notes, problem)) continue;
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, dnn);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (!plan.finalizes()) continue;
    std::vector<std::int64_t> workspace = {0}, number = {0};
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, workspace);
    if (workspace[0] > kMostWorkspace) continue;
    engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, number);
    const bool tensor_cores =
        std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
    on_tensor_cores += tensor_cores ? 1 : 0;
    result.push_back(
        {std::move(plan), workspace[0], number[0], cluster_blocks(configuration), tensor_cores});
    if (is_exact(problem) || on_tensor_cores == kMostCandidates) break;
    if (result.size() == 2 * kMostCandidates) break;
  }
  std::stable_partition(result.begin(), result.end(),
                        [](const Candidate& one) { return one.tensor_cores; });
  return result;
}

// Tiles of 128 x 128 in the result, seen as a matrix.
std::int64_t tiles_of(const ConvolutionProblem& problem) {
  const auto tiles = [](std::int64_t rows, std::int64_t columns) {
    return ((rows + 127) / 128) * ((columns + 127) / 128);
  };
  const Shape& w = problem.weights;
  if (problem.op == ir::Op::convolution_gradient_weights) return tiles(w[0], w[1] * w[2] * w[3]);
  const Shape& result = problem.op == ir::Op::convolution ? problem.y : problem.x;
  return tiles(result[0] * result[2] * result[3], result[1]);
}

// Whether its clusters divide 16 multiprocessors without a remainder.
bool fills_parts(const Candidate& one) { return 16 % one.cluster_blocks == 0; }

// Returns the first candidate, or another configuration of its engine if the number of tiles favors
// it:
//
// * A cluster runs on one GPC, a part of the device with 16 or 18 multiprocessors. Multiprocessors
//   that do not form a whole cluster stay idle. If an image's tiles take only a few rounds, this
//   costs a round. Then the first configuration with small clusters and without a split-K workspace
//   is better. With more tiles, the first configuration is better whose cluster size divides 16.
// * Weights of one or two tiles occupy the device only if the sums are split many times: the
//   configuration with the largest workspace is better.
Candidate& best_of(const ConvolutionProblem& problem, std::vector<Candidate>& all) {
  constexpr std::int64_t kFewTiles = 4 * 132, kFewTilesOfWeights = 2, kSmallCluster = 2;
  constexpr std::int64_t kMostForSums = std::int64_t{32} << 20;
  const bool weights = problem.op == ir::Op::convolution_gradient_weights;
  Candidate* best = &all.front();
  const std::int64_t engine = best->engine;
  if (!best->tensor_cores) return *best;
  const bool many = tiles_of(problem) > (weights ? kFewTilesOfWeights : kFewTiles);
  if (many && (weights || fills_parts(*best))) return *best;
  for (Candidate& one : all) {
    if (one.engine != engine) continue;
    if (many) {
      if (fills_parts(one) && one.workspace <= best->workspace) return one;
    } else if (weights) {
      const bool splits_more = one.workspace >= 2 * std::max<std::int64_t>(1, best->workspace);
      if (splits_more && one.workspace <= kMostForSums) best = &one;
    } else if (one.cluster_blocks <= kSmallCluster && one.workspace == 0) {
      return one;
    }
  }
  return *best;
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
    std::vector<Candidate> all = candidates(dnn, problem, operation.engines(mode));
    if (all.empty()) continue;
    Candidate& best = best_of(problem, all);
    return std::make_unique<Plan>(dnn, std::move(best.plan), best.workspace);
  }
  return nullptr;
}

}  // namespace traingraph::cuda
