#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/device_staging.h"
#include "graph/link_set.h"
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
  std::shared_ptr<const Profile> profile;
  std::vector<std::function<void()>> continuations;

  void finish();
  // Raises the error if there is one.
  void raise();
};

// A sum of gradients over micro-batches, in its parameter's layout.
struct GradientSum {
  TensorPtr tensor;
  ir::Layout layout;
  std::shared_ptr<std::byte> buffer;
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
  // What linked graphs are handed: forward values, and gradients of what they handed over.
  struct Handed {
    Exchange* to;
    const Tensor* tensor;
    ir::ValueId value;  // kNone: no gradient flows, which is zeros
    bool gradient;
    bool by(Run run) const { return gradient ? runs_gradient(run) : runs_forward(run); }
  };
  std::vector<Handed> handed;
  ir::ValueId result = ir::kNone;
  TensorPtr result_tensor;
  TensorPtr prediction;  // what the loss compares; null without one
  TensorPtr label;
  std::string fixed_batch;
  std::vector<ir::StepInput> step_inputs;  // those it reads
};

// Where the time of a run went; `seconds` by node.
std::shared_ptr<const Profile> profile_of(const Program& program, Run run,
                                          const std::vector<double>& seconds, double total);

// Compiles the programs of one graph, one per batch size and mode, and runs them.
class Executor final : public ValueReader, public std::enable_shared_from_this<Executor> {
 public:
  Executor(GraphState& graph, const Backend& backend);
  ~Executor() override;

  // Compiles for the tensors' own batch size, so that mistakes show at compile.
  void prepare();
  // Goes on from what an executor of the same graph was given and has counted.
  void take_over(Executor& before);
  void bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch);
  // Inference graphs and FORWARD_FOR_INFERENCE run a forward in inference mode, whatever `run` is.
  Execution submit(Run run, const ExecutionArguments& arguments);

  // Raises unless a training step can run with this batch size.
  void check_batch(std::int64_t batch) { program_for(batch, Mode::training); }
  // The last result of an inference forward without losses.
  TensorData predict(const ExecutionArguments& arguments);
  // What the loss of the last forward compared: prediction and label.
  std::pair<TensorData, TensorData> scored() const;

  void read(const Tensor& tensor, void* bytes, std::size_t length) override;
  TensorData view(const Tensor& tensor) override;
  // Of a tensor whose gradient the last gradient pass computed and kept.
  TensorData gradient(const Tensor& tensor) const;
  // Lets reads of this handle of a gradient come here.
  void read_through(const GradientHandle& handle);
  void synchronize_parameters();
  // Runs work after all executions that were submitted; for a completion handler, which stands
  // between two of them, at once.
  void run_between(const std::function<void()>& work);
  // The optimizer's time step as it is between executions: without updates still to come.
  std::int64_t time_step() const;
  void set_time_step(std::int64_t value);

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
  // The same; raises when an op fixes another batch size.
  CompiledPtr program_for(std::int64_t batch, Mode mode);
  CompiledPtr compile(std::int64_t batch, Mode mode);
  bool current(const CompiledGraph& graph) const;
  void attach(CompiledGraph& graph);
  std::byte* sum_buffer(const TensorPtr& tensor);
  void grow_arena(std::size_t bytes);
  void place_arena(std::size_t bytes);
  void restore_arena(std::size_t bytes);
  MemoryPlan plan_of(const CompiledGraph& graph) const;

  Execution start(Run run, Mode mode, const ExecutionArguments& arguments);
  void check_may_run(const CompiledGraph& graph, Run run) const;
  std::int64_t batch_for(Run run, const ExecutionArguments& arguments) const;
  // What the job does with the sum of gradients; only later does the sum count it.
  void place_in_step(Job& job, Run run) const;
  void count_micro_batch(const Job& job);
  void bind_inputs(Job& job, const ExecutionArguments& arguments);
  void bind_gradients(Job& job);
  // What a linked graph has written, or was told to.
  void bind_exchange(Job& job, const BoundSlot& slot);
  // Says what this job will hand to linked graphs.
  void announce_exchanges(const Job& job);
  void write_exchanges(const Job& job);
  void place_exchanges(CompiledGraph& graph);
  void bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                  const CompiledGraph& graph);
  // A copy on the device of data that cannot be used in place.
  void stage(const Tensor& tensor, const ir::Type& type, const TensorData& data);
  void give(const Tensor& tensor, TensorData data);
  // Whether a run of this program touches these bytes on the device as something else, too.
  bool uses(const CompiledGraph& graph, const BoundArray& array) const;
  bool has_batch(const Tensor& tensor) const;
  void bind_outputs(Job& job, const ExecutionArguments& arguments) const;
  // Whether the job's run computes this declared output.
  bool writes(const Job& job, const Tensor& output) const;
  // Names of the outputs that it does.
  std::string outputs_of(const Job& job) const;
  void set_rates(Job& job);
  void write_step_numbers(const Job& job);
  void execute(Job& job);
  void run_program(const Job& job);
  [[noreturn]] void raise_not_finite(const Job& job, ir::ValueId value) const;
  void deliver(Job& job);
  bool leave_result(Job& job) const;
  static TensorData host_array(const ir::Type& type);
  // A value that a pass has left, and how to read it.
  struct Kept {
    const CompiledGraph* graph;
    Run run;
    ir::ValueId value;
  };
  Kept kept_result(const Tensor& tensor) const;
  Kept kept_gradient(const Tensor& of) const;
  Kept kept(const Tensor& tensor) const;
  std::shared_ptr<const void> keeper_of(const Kept& kept) const;
  TensorData copy_out(const Kept& kept) const {
    return copy_out(*kept.graph, kept.run, kept.value);
  }
  // Runs the job, and settles its handle unless the result is still to come; never throws.
  void begin(Job& job);
  // Whether nothing but the result will be read of what the job leaves.
  bool may_leave(const Job& job) const;
  void settle(Job& job);
  void forget(const Job& job);
  TensorData copy_out(const CompiledGraph& graph, Run run, ir::ValueId value) const;
  void raise_earlier_failure();

  GraphState& graph_;
  const Backend& backend_;
  const std::uint64_t built_for_;
  // What follows from the graph as it was then: another one gets another executor.
  const std::int64_t declared_batch_;
  const Mode inference_mode_;
  const std::shared_ptr<LinkSet> links_;  // work in flight may outlive the graph
  // Guards programs_, data_, written_gradients_ and what was submitted. Nobody waits for the stream
  // while holding it.
  mutable std::mutex mutex_;
  std::list<CompiledPtr> programs_;          // newest use first
  std::map<const Tensor*, GivenData> data_;  // what each bound tensor was last given
  std::uint64_t versions_ = 0;               // of data that was given
  std::uint64_t calls_ = 0;                  // that brought data
  std::size_t library_bytes_ = 0;            // the process's growth while kernels were made
  DeviceStaging staging_;                    // of that data
  // User gradients that were written since the last forward pass.
  std::set<const Tensor*> written_gradients_;
  // Micro-batches of the step being made: how many are summed, and their rows.
  int summed_ = 0;
  std::int64_t summed_rows_ = 0;
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
  const std::shared_ptr<std::atomic<std::int64_t>> forward_count_;
  std::atomic<std::int64_t> waiting_updates_{0};  // submitted and not yet run
  std::vector<GradientSum> sums_;
  std::map<const Tensor*, const Tensor*> handles_;  // of gradients, to what they are gradients of
  // What the programs' addresses point to, by the pass that reads it.
  std::vector<BoundArray> forward_arrays_;
  std::vector<BoundArray> gradient_arrays_;
  // What is readable now: results of the last forward, gradients of the last gradient pass.
  CompiledPtr forward_;
  Run forward_run_ = Run::forward;
  CompiledPtr gradient_;
  Run gradient_run_ = Run::gradient;
};

}  // namespace traingraph
