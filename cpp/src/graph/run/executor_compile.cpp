// The compiling half of the executor: when programs are made, and what they are given.
#include <algorithm>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"
#include "graph/run/executor.h"
#include "passes/passes.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"
#include "runtime/memory/allocator.h"
#include "runtime/threads/interruption.h"

namespace traingraph {

Executor::Executor(std::shared_ptr<const GraphState> graph, const Backend& backend,
                   const Executor* before, bool serves_reads)
    : held_graph_(std::move(graph)),
      graph_(*held_graph_),
      backend_(backend),
      serves_reads_(serves_reads),
      built_for_(graph_.changes),
      updatable_(updatable_parameters(graph_)),
      declared_batch_(declared_batch(graph_)),
      // An inference graph over layers with a loss needs no labels: it gives what would be
      // compared.
      inference_mode_(!graph_.training && lacks_labels(graph_) ? Mode::prediction
                                                               : Mode::inference),
      shared_(before != nullptr ? before->shared_ : std::make_shared<SharedByExecutors>()),
      programs_(graph_, backend),
      exchanges_(graph_, backend),
      bound_inputs_(graph_, backend, exchanges_,
                    before != nullptr ? &before->bound_inputs_ : nullptr),
      submitted_(graph_, declared_batch_),
      step_numbers_(backend, graph_.forward_count),
      readable_results_(backend) {}
Executor::~Executor() {
  try {
    take_left_result();  // whose handle would keep the arena
  } catch (...) {
    // Without memory the handle keeps it. A lock that is lost in a forked child is of a thread of
    // the parent, whose handle nobody reads.
  }
}

bool Executor::is_current(std::uint64_t changes) const {
  for (const TensorParameter* p : updatable_) changes += p->is_updatable.changes();
  return built_for_ == changes;
}

void Executor::prepare(Executor* before, bool again) {
  {
    const std::lock_guard lock(mutex_);
    bound_bytes_ = again ? before->bound_bytes_ : bound_inputs_.copied_bytes();
  }
  const bool labels_missing = graph_.loss_layer != nullptr && graph_.loss_labels.empty();
  // Without labels there is no loss to differentiate yet; the forward part is checked all the same.
  const Mode mode = graph_.training && !labels_missing ? Mode::training : inference_mode_;
  const CompilationLock compiling;
  // In one turn: others may submit to a shared stream without end.
  stream_->run([&] {
    make_usual(mode, false);
    if (before != nullptr) succeed_in_turn(*before);
  });
}

void Executor::succeed(Executor& before) {
  stream_->run([&] { succeed_in_turn(before); });
}

void Executor::succeed_in_turn(Executor& before) {
  const std::lock_guard lock(mutex_);
  before.successor_ = shared_from_this();
  before.newest_pass_ = 0;  // what it has left is not to be read
}

bool Executor::limits_both(std::int64_t rows, Mode mode) const {
  const std::lock_guard lock(mutex_);
  return graph_.memory_limit && mode == Mode::training && rows <= declared_batch_ &&
         shares_program(declared_batch_ - 1, mode);
}

// Parameters lie as training wants them; inference may need no other program for whole batches.
void Executor::make_usual(Mode mode, bool apart) {
  const InterruptibleCompilation interruptible;
  const auto make = [&] { return compile(graph_, backend_, stream_, declared_batch_, mode); };
  Programs made;
  if (mode == Mode::training) made.push_back(make());
  const CompiledPtr fewer = compile_shared(declared_batch_ - 1, mode);
  if (fewer != nullptr) made.push_back(fewer);
  if (made.empty() || (mode != Mode::training && fewer->counts_rows)) made.push_back(make());
  attach(made, apart);
}

// One row alone is not worth a whole batch where it is not trained on: whoever acts step by step
// asks for it.
bool Executor::shares_program(std::int64_t rows, Mode mode) const {
  return has(graph_.options, CompilationOptions::kAnyBatchSize) && graph_.links == nullptr &&
         !unshared_.contains(mode) && rows < declared_batch_ &&
         rows > (mode == Mode::training ? 0 : 1);
}

CompiledPtr Executor::compile_shared(std::int64_t rows, Mode mode) {
  {
    const std::lock_guard lock(mutex_);
    if (!shares_program(rows, mode)) return nullptr;
  }
  CompiledPtr made;
  try {
    made = compile(graph_, backend_, stream_, declared_batch_, mode, true);
  } catch (const Unsupported&) {
    // The backend lacks a kernel for one of the ops that count rows.
  }
  if (made != nullptr) return made;
  const std::lock_guard lock(mutex_);
  unshared_.insert(mode);
  return nullptr;
}

void Executor::take_given(Executor& other) {
  other.stream_->run([&] {
    const std::lock_guard lock(other.mutex_);
    bound_inputs_.take_arrays(other.bound_inputs_);
  });
}

CompiledPtr Executor::find_current(std::int64_t batch, Mode mode, bool apart) {
  const bool shares = shares_program(batch, mode);
  CompiledPtr found = programs_.find(shares ? declared_batch_ : batch, mode, shares);
  if (found != nullptr && apart && !found->fits_apart) return nullptr;
  return found;
}

CompiledPtr Executor::compiled(std::int64_t batch, Mode mode, bool apart) {
  CompiledPtr result;
  const auto is_there = [&] {
    const std::lock_guard lock(mutex_);
    result = find_current(batch, mode, apart);
    return result != nullptr;
  };
  if (is_there()) return result;
  const CompilationLock compiling;
  // Compiling may move parameters and the arena: nothing may be running.
  stream_->run([&] {
    if (is_there()) return;
    const InterruptibleCompilation interruptible;
    if (apart && limits_both(batch, mode)) {
      make_usual(mode, apart);
      if (is_there()) return;
    }
    result = compile_shared(batch, mode);
    if (result == nullptr) result = compile(graph_, backend_, stream_, batch, mode);
    attach({result}, apart);
  });
  return result;
}

void Executor::bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
                    bool synchronous) {
  const bool asks = batch == 0;
  const Bound bound = bound_by(graph_, asks ? declared_batch_ : 0, data, tensors);
  if (asks) batch = bound.rows.agreed();
  std::unique_lock lock(mutex_);
  // User gradients are those of the forward pass before.
  Passes forward = bound.user_gradients && asks ? submitted_.passes() : Passes();
  if (bound.user_gradients && forward.forward == nullptr) {
    lock.unlock();
    forward.rows = batch == 0 ? declared_batch_ : batch;
    forward.forward = compiled(forward.rows, Mode::training, true);
    lock.lock();
  }
  if (const std::shared_ptr<Executor> successor = successor_) {
    lock.unlock();
    return successor->bind(data, tensors, asks ? 0 : batch, synchronous);
  }
  bound_inputs_.write(data, tensors, batch == 0 ? declared_batch_ : batch, forward, programs_,
                      synchronous);
}

void Executor::point(CompiledGraph& graph) {
  programs_.bind_parameters(graph);
  step_numbers_.bind(graph);
}

template <class Work>
void Executor::with_largest_entries(const CompiledGraph& graph, Run run, const Work& work) const {
  try {
    work();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.what() + plan_of(graph, run).largest_entries());
  }
}

void Executor::attach(const Programs& made, bool apart) {
  const Run run = apart ? Run::forward : default_run(*made.front());
  for (const CompiledPtr& graph : made) {
    const std::lock_guard lock(mutex_);
    with_largest_entries(*graph, run, [&] {
      point(*graph);
      bound_inputs_.place(*graph);
      if (serves_reads_) serve_reads(*graph);
      exchanges_.place(*graph);
    });
  }
  keep_within_limit(made, apart || run != Run::step);
  for (const CompiledPtr& graph : made) {
    const std::lock_guard lock(mutex_);
    if (programs_.outgrows(*graph, default_run(*graph))) {
      take_left_result();
      readable_results_.drop_all();
      submitted_.drop_passes();
    }
    with_largest_entries(*graph, run, [&] { programs_.make_room(*graph, default_run(*graph)); });
    if (const CompiledPtr replaced = programs_.add(graph)) {
      readable_results_.drop(replaced);
      submitted_.drop(replaced);
    }
  }
}

void Executor::serve_reads(const CompiledGraph& graph) {
  for (const GradientHandle& handle : graph_.gradient_handles) read_through(handle);
  for (const auto& [tensor, value] : graph.tensors) {
    auto* shared = const_cast<Tensor*>(tensor);
    if (shared->state().parameter != nullptr) continue;
    add_reader(shared->state(), weak_from_this());
  }
}

// What a program has beside its arena, of what the limit is for.
std::size_t Executor::bytes_beside_arena(const CompiledGraph& graph, const Programs& made) const {
  const std::lock_guard lock(mutex_);
  const MemoryPlan plan = plan_of(graph, Run::step, &made);
  const std::size_t bytes = plan.total_bytes - plan.arena_bytes;
  // Where kernels read the caller's arrays, copies of them come and go: those count that the graph
  // had when it was compiled, later ones come on top.
  return bytes - bound_inputs_.copied_bytes() + bound_bytes_;
}

void Executor::keep_within_limit(const Programs& made, bool apart) {
  if (!graph_.memory_limit) return;
  const auto limit = static_cast<std::size_t>(*graph_.memory_limit);
  const CompiledGraph* refused = nullptr;
  std::size_t needed = 0, least = 0, values = 0;  // of those that take most
  for (const CompiledPtr& graph : made) {
    const std::size_t beside = bytes_beside_arena(*graph, made);
    const std::size_t room = limit > beside ? limit - beside : 0;
    const auto needs = [&](bool phases_apart) {
      const std::size_t step = graph->program->step_schedule.arena_bytes;
      return phases_apart ? std::max(step, graph->program->phase_schedule.arena_bytes) : step;
    };
    needed = std::max(needed, beside + needs(apart));
    graph->fits_apart = needs(true) <= room;
    if (needs(apart) <= room) continue;
    const passes::Rematerialization chosen =
        passes::choose_rematerialized(*graph->program, backend_, apart, room);
    if (!chosen.fits) {
      if (beside + chosen.arena_bytes <= least) continue;
      refused = graph.get();
      least = beside + chosen.arena_bytes;
      values = chosen.values.size();
      continue;
    }
    const std::size_t before = private_memory_bytes();
    graph->program = passes::with_rematerialized(*graph->program, backend_, chosen.values);
    const std::size_t after = private_memory_bytes();
    graph->library_bytes = after > before ? after - before : 0;
    graph->fits_apart = needs(true) <= room;
    const std::lock_guard lock(mutex_);
    point(*graph);
  }
  if (refused == nullptr) return;
  const std::lock_guard lock(mutex_);
  with_largest_entries(*refused, apart ? Run::forward : Run::step, [&] {
    throw OutOfMemory("[compile] expected a memory plan of at most " + std::to_string(limit) +
                      " bytes, the memory_limit, but got " + std::to_string(needed) +
                      (apart ? " for phases run apart" : "") + ", and " + std::to_string(least) +
                      " with " + std::to_string(values) +
                      " values rematerialized, when that of no other would free any more");
  });
}

// What has its room from the start; other runs ask for theirs.
Run Executor::default_run(const CompiledGraph& graph) const {
  const bool waits = std::any_of(graph.bound.begin(), graph.bound.end(),
                                 [](const BoundSlot& slot) { return slot.is_gradient(); });
  const bool steps = graph.mode == Mode::training && graph_.micro_batches == 1 && !waits;
  return steps ? Run::step : Run::forward;
}

void Executor::make_room(const Job& job) {
  if (programs_.has_room(*job.graph, job.run)) return;
  const std::lock_guard lock(mutex_);
  if (programs_.outgrows(*job.graph, job.run)) readable_results_.drop_all();
  with_largest_entries(*job.graph, job.run, [&] { programs_.make_room(*job.graph, job.run); });
}

std::size_t Executor::device_memory_size() const {
  const std::lock_guard lock(mutex_);
  return programs_.arena_bytes();
}

const CompiledGraph* Executor::default_program() const {
  const CompiledGraph* step = graph_.training ? programs_.largest(Mode::training) : nullptr;
  return step != nullptr ? step : programs_.largest(inference_mode_);
}

MemoryPlan Executor::memory_plan() const {
  const std::lock_guard lock(mutex_);
  const CompiledGraph* usual = default_program();
  return usual != nullptr ? plan_of(*usual, default_run(*usual)) : MemoryPlan();
}

MemoryPlan Executor::plan_of(const CompiledGraph& graph, Run run, const Programs* made) const {
  MemoryPlan plan;
  programs_.list(graph, run, plan, made);
  bound_inputs_.list(plan);
  step_numbers_.list(plan);
  exchanges_.list(graph, plan);
  const Diagnostics* const device = backend_.diagnostics();
  plan.context_bytes = device != nullptr ? device->context_bytes() : 0;
  plan.total_bytes =
      plan.arena_bytes + plan.persistent_bytes + plan.staging_bytes + plan.exchange_bytes;
  return plan;
}

bool Executor::computes_gradient(const Tensor& tensor) const {
  const std::lock_guard lock(mutex_);
  const CompiledGraph* usual = default_program();
  return usual != nullptr && usual->gradients.contains(&tensor);
}

bool Executor::changes_parameters() const {
  const std::lock_guard lock(mutex_);
  const CompiledGraph* usual = default_program();
  return usual != nullptr && usual->changes_parameters();
}

std::string Executor::description() const {
  const std::lock_guard lock(mutex_);
  const CompiledGraph* usual = default_program();
  return usual != nullptr ? ir::to_string(usual->program->graph) : "not compiled";
}

}  // namespace traingraph
