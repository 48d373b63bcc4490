// `Executor` runs one compiled graph: it decides what a call does, queues or runs it, and settles
// its handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/mutex.h>

#include "graph/program/program_cache.h"
#include "graph/run/bound_inputs.h"
#include "graph/run/exchanges.h"
#include "graph/run/job.h"
#include "graph/run/readable_results.h"
#include "graph/run/step_numbers.h"
#include "graph/run/submission_order.h"

namespace traingraph {

// What the executors have in common that a graph gets one after another.
struct SharedByExecutors {
  Mutex mutex;  // guards what each says; nobody waits for the stream while holding it
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  PendingErrors failures;  // has a mutex of its own
};

// The headers of its parts say what they may do when.
class Executor final : public ValueReader, public std::enable_shared_from_this<Executor> {
 public:
  // Shares mutex, stream, failures and data that was given with the graph's executor before this
  // one, if any. Without `serves_reads` tensors are not read through it: what they show stays what
  // it was.
  Executor(std::shared_ptr<const GraphState> graph, const Backend& backend, const Executor* before,
           bool serves_reads = true);
  ~Executor() override;

  // Compiles for the tensors' own batch size, so that mistakes show at compile. Calls that come to
  // `before` from then on, because they had it before the graph got this one, run here. `again`:
  // for a graph that has changed since, whose memory limit does not count copies made since.
  void prepare(Executor* before, bool again);
  // The second half of it, for one that was prepared without `before`.
  void succeed(Executor& before);
  // Goes on from what another one over the same tensors and device was given, which goes on, too.
  void take_given(Executor& other);
  void bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
            bool synchronous);
  // Inference graphs and FORWARD_FOR_INFERENCE run a forward in inference mode, whatever `run` is.
  Execution submit(Run run, const ExecutionArguments& arguments, const CallDetails& details = {});

  // Raises unless a training step, or `apart` its phases, can run with this batch size.
  void check_batch(std::int64_t batch, bool apart = false) {
    compiled(batch, Mode::training, apart);
  }
  // Raises what such a call in inference mode would before it computes. `details.scored` receives
  // memory without numbers.
  void check_inference(const ExecutionArguments& arguments, const CallDetails& details);
  // Raises where a training step would lack data, whatever the numbers of the others are.
  void check_none_is_missing(const ExecutionArguments& arguments, const CallDetails& details);
  // Raises for labels, indices and lengths of all samples that a training step of `batch` rows
  // would refuse in one of its batches.
  void check_integers(const ExecutionArguments& samples, std::int64_t batch);
  // The last layer's first result in an inference forward without losses.
  TensorData predict(const ExecutionArguments& arguments, const SampleRows& samples,
                     const ChosenRows& rows);

  void read(const Tensor& tensor, void* bytes, std::size_t length) override;
  TensorData view(const Tensor& tensor) override;
  std::uint64_t newest_pass() const override { return newest_pass_; }
  void finish() override {
    stream_->run([] {});
  }
  // Of a tensor whose gradient the last gradient pass computed and kept.
  TensorData gradient(const Tensor& tensor) const;
  // Lets reads of this handle of a gradient come here.
  void read_through(const GradientHandle& handle);
  void synchronize_parameters();
  // Runs work after all executions that were submitted; for a completion handler, which stands
  // between two of them, at once.
  void run_between(const std::function<void()>& work);
  // Both within run_between. The step that stands between two of its micro-batches, unless the
  // graph, of so many changes, will be compiled again; null: none.
  BegunStepPtr begun_step(std::uint64_t changes) const;
  // Nothing goes on with the step that has run last, nor with one that was to be resumed. False,
  // without effect, where another one is to follow and a later step was submitted already.
  bool give_up_step(bool resumes);

  const Backend& backend() const { return backend_; }
  std::size_t device_memory_size() const;
  MemoryPlan memory_plan() const;
  std::string description() const;
  bool computes_gradient(const Tensor& tensor) const;
  // Whether a step of the graph, as it was compiled last, changes anything.
  bool changes_parameters() const;
  // Whether programs made now would mean the same: nothing was added since, or frozen or thawed.
  bool is_current(std::uint64_t changes) const;

 private:
  // The program for this batch and mode, compiled now if need be; `apart`: for phases apart, too,
  // as far as a memory limit is concerned. Raises where a layer fixes another batch size. Call
  // without mutex_.
  CompiledPtr compiled(std::int64_t batch, Mode mode, bool apart);
  // Whether a call of this mode with so many rows shall run in a program of the declared batch.
  // Call with mutex_.
  bool shares_program(std::int64_t rows, Mode mode) const;
  // Such a program; null where it shall not be, or cannot. Call without mutex_.
  CompiledPtr compile_shared(std::int64_t rows, Mode mode);
  using Programs = std::vector<CompiledPtr>;
  // Whether a memory limit is for two programs, of which this is one. Call without mutex_.
  bool limits_both(std::int64_t rows, Mode mode) const;
  // Those for the declared batch and, with kAnyBatchSize, for fewer rows: both before either keeps
  // to a limit, which is for what they have together. Call while holding the stream.
  void make_usual(Mode mode, bool apart);
  // By the holder of the stream.
  void succeed_in_turn(Executor& before);
  // The same if it is there, else null. Call with mutex_.
  CompiledPtr find_current(std::int64_t batch, Mode mode, bool apart);
  // Gives new programs their addresses, and keeps them. Call while holding the stream, without
  // mutex_.
  void attach(const Programs& made, bool apart);
  // Points it to what lies outside the arena.
  void point(CompiledGraph& graph);
  // Lets reads of the graph's tensors and gradients come here.
  void serve_reads(const CompiledGraph& graph);
  std::size_t bytes_beside_arena(const CompiledGraph& graph, const Programs& made) const;
  // Where a memory limit asks for it, makes programs anew. Raises OutOfMemory.
  void keep_within_limit(const Programs& made, bool apart);
  // Adds the largest entries of its plan to an OutOfMemory that the work raises. Call with mutex_.
  template <class Work>
  void with_largest_entries(const CompiledGraph& graph, Run run, const Work& work) const;
  Run default_run(const CompiledGraph& graph) const;
  // What the graph is there for, whatever has run last. Call with mutex_.
  const CompiledGraph* default_program() const;
  // Room in the arena for the job's run. Call while holding the stream.
  void make_room(const Job& job);
  // With an arena that has room for the run; `made`: see ProgramCache::list.
  MemoryPlan plan_of(const CompiledGraph& graph, Run run, const Programs* made = nullptr) const;

  void check_may_run(const CompiledGraph& graph, Run run) const;
  // Of a training step.
  void check_labels_are_declared(const char* call) const;
  // Call with mutex_.
  void check_may_infer(const char* call) const;
  // Whether one of the two below has something to do.
  bool is_behind(const CompiledGraph& graph) const;
  // Parameters that were written on the host since their last use.
  void upload_parameters(const CompiledGraph& graph);
  // Goes on with the step that a checkpoint held.
  void resume_step(const CompiledGraph& graph);
  // Settles what the job reads and writes, in the order of submission. Call with mutex_.
  void bind_job(Job& job, const ExecutionArguments& arguments, const CallDetails& details);
  // Where a job stands: in the stream's queue, which has moved it away, or with this thread, which
  // has taken the stream for it or held it before.
  enum class StreamTurn { queued, taken, held };
  // In the order of binding, and counts it: where this raises, the call has had no effect. Call
  // with mutex_.
  StreamTurn acquire_or_enqueue(Job& job, bool synchronous);
  // What later calls build on. Call with mutex_.
  void count(Job& job);
  // Whether nothing but the result will be read of what the job leaves.
  bool defers_result(const Job& job) const;

  // Runs the job, and settles its handle unless the result is still to come; never throws.
  void run_and_settle(Job& job);
  void execute(Job& job);
  // Copies the last large result out of the arena, if a handle of it is left. Call while holding
  // the stream.
  void take_left_result();
  // Where another thread has compiled since the call, so that parameters lie otherwise: brings what
  // the job was bound to over to a program of now.
  void rebind_after_move(Job& job);
  void run_program(const Job& job);
  void settle(Job& job);
  // After a failure nothing may build on the passes before it, and its update does not count.
  void forget(const Job& job);

  // As it was when this was made; its own, for work in flight may outlive the graph.
  const std::shared_ptr<const GraphState> held_graph_;
  const GraphState& graph_;
  const Backend& backend_;
  const bool serves_reads_;
  const std::uint64_t built_for_;  // GraphState::changes of the snapshot
  const std::vector<const TensorParameter*> updatable_;
  // What follows from the graph as it was then: another one gets another executor.
  const std::int64_t declared_batch_;
  const Mode inference_mode_;
  std::size_t bound_bytes_ = 0;  // of copies on the host at `compile`; as it was from then on

  const std::shared_ptr<SharedByExecutors> shared_;
  const std::shared_ptr<Stream>& stream_ = shared_->stream;
  // Guards the six below.
  Mutex& mutex_ = shared_->mutex;
  std::shared_ptr<Executor> successor_;  // the graph's next one, where calls run from then on
  std::set<Mode> unshared_;              // a program would have to mix rows of the batch
  ProgramCache programs_;
  Exchanges exchanges_;
  BoundInputs bound_inputs_;
  SubmissionOrder submitted_;

  // Touched only by whoever holds the stream.
  StepNumbers step_numbers_;
  ReadableResults readable_results_;
  std::weak_ptr<ExecutionState> left_;  // of the last forward pass, if its result was not copied

  std::atomic<std::uint64_t> newest_pass_{0};  // written by whoever holds the stream
};

}  // namespace traingraph
