#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/lowering.h"
#include "runtime/parameter_store.h"
#include "runtime/program.h"
#include "runtime/stream.h"

namespace traingraph {

// One submitted execution, shared by its handle and the queue.
struct ExecutionState {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Task> task;  // null after a synchronous run
  std::mutex mutex;
  bool done = false;
  std::exception_ptr error;
  std::atomic<bool> raised{false};  // somebody has seen the error
  TensorData result;
  double seconds = 0;
  std::vector<std::function<void()>> continuations;

  void finish();
  // Raises the error if there is one.
  void raise();
};

// A program with what names mean in it.
struct CompiledGraph {
  std::int64_t batch = 0;
  Mode mode = Mode::training;
  int threads = 0;
  bool clips = false;  // whether gradients are clipped
  std::unique_ptr<Program> program;
  std::vector<BoundSlot> bound;
  std::vector<LoweredGraph::Slot> slots;
  std::vector<ir::ValueId> slot_values;          // by parameter slot
  std::vector<std::uint64_t> slot_versions;      // of the stores this was compiled against
  std::vector<ParameterState*> stores;           // by slot; null for optimizer buffers
  std::map<const Tensor*, ir::ValueId> tensors;  // kNone where fused away
  std::map<const Tensor*, ir::ValueId> gradients;
  ir::ValueId result = ir::kNone;
  TensorPtr result_tensor;
  std::string fixed_batch;
};

// Compiles the programs of one graph, one per batch size and mode, and runs them.
class Executor final : public ValueReader, public std::enable_shared_from_this<Executor> {
 public:
  Executor(GraphState& graph, const Backend& backend);
  ~Executor() override;

  // Compiles for the tensors' own batch size, so that mistakes show at compile.
  void prepare();
  void bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch);
  // What was bound to the executor that this one replaces.
  void take_data(Executor& earlier);
  // Inference graphs and FORWARD_FOR_INFERENCE run a forward in inference mode, whatever `run` is.
  Execution submit(Run run, const ExecutionArguments& arguments);

  void read(const Tensor& tensor, void* bytes, std::size_t length) override;
  TensorData gradient(const Tensor& parameter) const;
  void synchronize_parameters();

  std::size_t device_memory_size() const;
  MemoryPlan memory_plan() const;
  std::string description() const;
  // GraphState::all_changes when this was made.
  std::uint64_t built_for() const { return built_for_; }

 private:
  struct Job;
  using CompiledPtr = std::shared_ptr<CompiledGraph>;

  // The program for this batch and mode, compiled now if need be. Call without mutex_.
  CompiledPtr compiled(std::int64_t batch, Mode mode);
  CompiledPtr find_current(std::int64_t batch, Mode mode);
  CompiledPtr compile(std::int64_t batch, Mode mode);
  bool current(const CompiledGraph& graph) const;
  void attach(CompiledGraph& graph);
  void grow_arena(std::size_t bytes);

  Execution start(Run run, Mode mode, const ExecutionArguments& arguments);
  std::int64_t batch_for(Run run, const ExecutionArguments& arguments) const;
  void bind_inputs(Job& job, const ExecutionArguments& arguments);
  void bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                  const CompiledGraph& graph);
  bool reads(const Tensor* tensor) const;
  bool declares(const Tensor* tensor) const;
  // A copy on the device of data that cannot be used in place.
  void stage(const Tensor& tensor, const ir::Type& type, const TensorData& data);
  void bind_outputs(Job& job, const ExecutionArguments& arguments) const;
  void set_step_numbers(Job& job);
  void execute(const Job& job);
  void deliver(const Job& job);
  // Runs the job and settles its handle; never throws.
  void settle(const Job& job);
  TensorData copy_out(const CompiledGraph& graph, Run run, ir::ValueId value) const;
  void raise_earlier_failure();

  GraphState& graph_;
  const Backend& backend_;
  const std::uint64_t built_for_;
  // Guards programs_, data_ and what was submitted. Nobody waits for the stream while holding it.
  mutable std::mutex mutex_;
  std::list<CompiledPtr> programs_;           // newest use first
  std::map<const Tensor*, TensorData> data_;  // what each bound tensor was last given
  // By which call, where it was a call's argument and not bind_and_write_data.
  std::map<const Tensor*, std::uint64_t> given_;
  std::uint64_t calls_ = 0;
  std::size_t library_bytes_ = 0;  // the process's growth while kernels were made
  std::map<const Tensor*, std::size_t> staged_bytes_;  // copies of ours among them
  // What later calls may build on, in order of submission.
  CompiledPtr submitted_forward_;
  CompiledPtr submitted_gradient_;

  std::mutex failure_mutex_;
  std::shared_ptr<ExecutionState> failure_;  // the first whose error nobody has seen

  // Touched only by whoever holds the stream.
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<std::byte> arena_;
  std::size_t arena_bytes_ = 0;
  std::size_t arena_needed_ = 0;
  // Eight bytes per number: float32, float64 or int64.
  alignas(64) std::byte step_block_[ir::kStepInputCount * 8] = {};
  std::int64_t forward_count_ = 0;
  // What is readable now: results of the last forward, gradients of the last gradient call.
  CompiledPtr forward_;
  Run forward_run_ = Run::forward;
  CompiledPtr gradient_;
};

}  // namespace traingraph
