// Whole networks in this module's copy of the core, for what only its allocators and programs show.
#include <pybind11/stl.h>

#include <algorithm>
#include <tuple>

#include <traingraph/traingraph.h>

#include "allocations.h"
#include "graph/lowering/lowering.h"
#include "passes/passes.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/parameter_store.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

constexpr std::int64_t kBatch = 16;

ConvolutionDescriptor three_by_three(std::int64_t in, std::int64_t out) {
  ConvolutionDescriptor d;
  d.kernel_height = d.kernel_width = 3;
  d.input_feature_channel_count = in;
  d.output_feature_channel_count = out;
  return d;
}

PoolingDescriptor halving() {
  PoolingDescriptor d;
  d.kernel_height = d.kernel_width = d.stride_y = d.stride_x = 2;
  return d;
}

LayerPtr relu() {
  return std::make_shared<Activation>(ActivationDescriptor(ActivationType::kReLU));
}

// The digits network: two convolutions with batch norm, pooling, dropout, two fully connected.
struct Digits {
  TensorPtr x = Tensor::create(TensorDescriptor({kBatch, 1, 8, 8}));
  TensorPtr labels = Tensor::create(TensorDescriptor({kBatch}, DataType::kInt64));
  std::shared_ptr<TrainingGraph> training;
  std::vector<float> images = std::vector<float>(kBatch * 64, 0.5f);
  std::vector<std::int64_t> classes = std::vector<std::int64_t>(kBatch, 3);

  Digits() {
    const auto graph = std::make_shared<Graph>();
    sequential(
        *graph, x,
        {std::make_shared<Convolution>(three_by_three(1, 32)),
         std::make_shared<BatchNormalization>(32), relu(),
         std::make_shared<Convolution>(three_by_three(32, 64)),
         std::make_shared<BatchNormalization>(64), relu(), std::make_shared<Pooling>(halving()),
         std::make_shared<Reshape>(Shape{kBatch, 1024}),
         std::make_shared<FullyConnected>(1024, 128), relu(), std::make_shared<Dropout>(0.1f),
         std::make_shared<FullyConnected>(128, 10)});
    LossDescriptor loss;
    loss.type = LossType::kSoftmaxCrossEntropy;
    training =
        std::make_shared<TrainingGraph>(std::vector<GraphPtr>{graph}, std::make_shared<Loss>(loss),
                                        std::make_shared<Adam>(OptimizerDescriptor{}));
    training->add_inputs({{"x", x}}, {{"labels", labels}});
  }

  ExecutionArguments arguments() {
    ExecutionArguments a;
    a.inputs = {{"x", TensorData::of(images.data(), {kBatch, 1, 8, 8})}};
    TensorData label = TensorData::raw(classes.data(), classes.size() * sizeof(classes[0]));
    a.loss_labels = {{"labels", label}};
    a.options = ExecutionOptions::kSynchronous;
    return a;
  }
};

// Calls of operator new by the core between entry and return of Program::run, per kind of run,
// after each has run once.
std::map<std::string, std::int64_t> allocations_per_run(const std::string& device, bool mixed) {
  const Precision precision = mixed ? Precision::kMixedFloat16 : Precision::kFloat32;
  Digits digits;
  digits.training->compile(CompilationOptions::kNone, Device::named(device), {}, {}, precision);
  digits.training->execute(digits.arguments());

  // The same program once more, bound by hand, so that nothing but it is measured.
  const Backend& backend = backend_named(device);
  LoweredGraph lowered = lower(digits.training->state(), kBatch, Mode::training);
  passes::PipelineRequest request;
  request.backend = &backend;
  request.precision = precision;
  for (const LoweredGraph::Slot& slot : lowered.slots) {
    request.parameters.push_back({true, slot.tensor->state().parameter->layout, slot.follows});
  }
  std::vector<ir::ValueId> values;
  const auto program = passes::compile(lowered.lowering.graph, request, values);
  const std::size_t room =
      std::max(program->arena_bytes(Run::step), program->arena_bytes(Run::step_by_phases));
  const std::shared_ptr<std::byte> arena = backend.allocate(room);
  program->bind_arena(arena.get());
  std::vector<std::shared_ptr<std::byte>> placed;
  auto place = [&](void* bytes, std::size_t length) {
    if (uses_host_memory(backend)) return static_cast<std::byte*>(bytes);
    placed.push_back(backend.allocate(length));
    write_memory(backend, placed.back().get(), bytes, length);
    return placed.back().get();
  };
  alignas(8) std::byte host_numbers[8 * ir::kStepInputCount] = {};
  std::byte* numbers = place(host_numbers, sizeof(host_numbers));
  std::byte* images = place(digits.images.data(), digits.images.size() * sizeof(float));
  std::byte* classes = place(digits.classes.data(), digits.classes.size() * sizeof(std::int64_t));
  for (std::size_t v = 0; v < program->graph.values.size(); ++v) {
    const ir::Value& value = program->graph.values[v];
    const auto id = static_cast<ir::ValueId>(v);
    if (value.source == ir::Source::step) program->bind(id, numbers + 8 * value.slot);
    if (value.source == ir::Source::bound) {
      const bool is_label = value.type.data_type == DataType::kInt64;
      program->bind(id, is_label ? classes : images);
    }
    if (value.source == ir::Source::parameter) {
      const LoweredGraph::Slot& slot = lowered.slots[static_cast<std::size_t>(value.slot)];
      program->bind(id, slot.buffer.empty() ? slot.tensor->state().parameter->master.get()
                                            : slot_buffer(*slot.tensor, slot.buffer));
    }
  }
  std::map<std::string, std::int64_t> result;
  const std::pair<const char*, Run> runs[] = {{"forward", Run::forward},
                                              {"gradient", Run::gradient},
                                              {"update", Run::update},
                                              {"step", Run::step}};
  for (const auto& [name, run] : runs) {
    // A device may record the second run.
    for (int k = 0; k < 2; ++k) program->run(run, nullptr);
    const std::int64_t before = allocations().count;
    program->run(run, nullptr);
    result[name] = allocations().count - before;
  }
  program->run_checked(Run::step_by_phases);
  const std::int64_t before = allocations().count;
  program->run_checked(Run::step_by_phases);
  result["checked step"] = allocations().count - before;
  return result;
}

std::size_t allocated_on(const Backend& backend) {
  return uses_host_memory(backend)
             ? allocated_bytes()
             : static_cast<std::size_t>(backend.diagnostics()->counters().allocated_bytes);
}

// (what the plan says, what the backend's allocator holds) after a step and the separate phases.
std::pair<std::size_t, std::size_t> planned_and_allocated(const std::string& device,
                                                          int micro_batches,
                                                          std::optional<std::int64_t> limit) {
  const Backend& backend = backend_named(device);
  const std::size_t before = allocated_on(backend);
  Digits digits;
  digits.training->set_micro_batches(micro_batches);
  digits.training->compile(CompilationOptions::kNone, Device::named(device), {}, {},
                           Precision::kFloat32, limit);
  for (int k = 0; k < micro_batches; ++k) digits.training->execute(digits.arguments());
  digits.training->bind_and_write_data(
      {{"x", TensorData::of(digits.images.data(), {kBatch, 1, 8, 8})}}, {{"x", digits.x}});
  ExecutionArguments skip = digits.arguments();
  skip.options = skip.options | ExecutionOptions::kSkipWritingInputDataToDevice;
  for (int k = 0; k < micro_batches; ++k) {
    digits.training->execute_forward(skip);
    digits.training->execute_gradient(skip);
  }
  digits.training->execute_optimizer_update(skip);
  return {digits.training->memory_plan().total_bytes, allocated_on(backend) - before};
}

// What the plan says after compile and what the allocator holds then, and both after batches of all
// sizes, also in flight. `shares`: where one program can serve them all.
using Sizes = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
Sizes planned_and_allocated_for_any_size(const std::string& device,
                                         std::optional<std::int64_t> limit, bool shares) {
  const Backend& backend = backend_named(device);
  const std::size_t before = allocated_on(backend);
  Digits digits;
  digits.training->compile(shares ? CompilationOptions::kAnyBatchSize : CompilationOptions::kNone,
                           Device::named(device), {}, {}, Precision::kFloat32, limit);
  const std::size_t planned = digits.training->memory_plan().total_bytes;
  const std::size_t compiled = allocated_on(backend) - before;
  for (const bool waits : {true, false}) {
    for (const std::int64_t rows : {kBatch, std::int64_t{1}, std::int64_t{11}, std::int64_t{4}}) {
      ExecutionArguments some = digits.arguments();
      some.batch_size = rows;
      some.inputs = {{"x", TensorData::of(digits.images.data(), {rows, 1, 8, 8})}};
      if (!waits) some.options = ExecutionOptions::kNone;
      digits.training->execute(some);
    }
  }
  digits.training->execute(digits.arguments());
  return {planned, compiled, digits.training->memory_plan().total_bytes,
          allocated_on(backend) - before};
}

// The same for two linked graphs, of which the second has a user gradient: the sum of their plans.
std::pair<std::size_t, std::size_t> planned_and_allocated_linked(const std::string& device) {
  const Backend& backend = backend_named(device);
  const std::size_t before = allocated_on(backend);
  const TensorPtr x = Tensor::create(TensorDescriptor({kBatch, 4}));
  const auto first = std::make_shared<Graph>();
  const auto second = std::make_shared<Graph>();
  const TensorPtr hidden = first->node(std::make_shared<FullyConnected>(4, 8), x);
  const TensorPtr result = second->node(std::make_shared<FullyConnected>(8, 2), hidden);
  const auto make = [](const GraphPtr& graph) {
    return std::make_shared<TrainingGraph>(std::vector<GraphPtr>{graph}, nullptr,
                                           std::make_shared<SGD>(OptimizerDescriptor{}));
  };
  const auto front = make(first);
  const auto back = make(second);
  front->add_inputs({{"x", x}});
  const TensorPtr gradient = back->allocate_user_gradient(result);
  front->link({back});
  front->compile(CompilationOptions::kLinkGraphs, Device::named(device));
  back->compile(CompilationOptions::kLinkGraphs, Device::named(device));
  ExecutionArguments now;
  now.options = ExecutionOptions::kSynchronous;
  std::vector<float> numbers(kBatch * 4, 0.5f);
  for (int step = 0; step < 3; ++step) {
    front->bind_and_write_data({{"x", TensorData::of(numbers.data(), {kBatch, 4})}}, {{"x", x}});
    front->execute_forward(now);
    back->execute_forward(now);
    back->bind_and_write_data({{"g", TensorData::of(numbers.data(), {kBatch, 2})}},
                              {{"g", gradient}});
    back->execute_gradient(now);
    front->execute_gradient(now);
    back->execute_optimizer_update(now);
    front->execute_optimizer_update(now);
  }
  return {front->memory_plan().total_bytes + back->memory_plan().total_bytes,
          allocated_on(backend) - before};
}

}  // namespace

void bind_networks(py::module_& module) {
  module.def("allocations_per_run", allocations_per_run, py::arg("device"),
             py::arg("mixed") = false);
  module.def("planned_and_allocated", planned_and_allocated, py::arg("device"),
             py::arg("micro_batches") = 1, py::arg("memory_limit") = py::none());
  module.def("planned_and_allocated_for_any_size", planned_and_allocated_for_any_size,
             py::arg("device"), py::arg("memory_limit") = py::none(), py::arg("shares") = true);
  module.def("planned_and_allocated_linked", planned_and_allocated_linked, py::arg("device"));
}

}  // namespace traingraph::testing
