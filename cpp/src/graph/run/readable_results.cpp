// Finds results and gradients that the last passes left in the arena, and copies or views them.
#include "graph/run/readable_results.h"
#include "runtime/device_memory.h"
#include "runtime/foreign_streams.h"

#include <traingraph/errors.h>

namespace traingraph {

using ir::kNone;

bool ReadableResults::has_before(const Job& job) const {
  const bool trains = job.graph->mode == Mode::training;
  const bool starts = !trains || (runs_forward(job.run) && job.starts_step);
  if (!starts && job.after.step == given_up_) return false;
  return runs_forward(job.run) || passes_.before(job.run) == job.graph;
}

void ReadableResults::give_up(std::uint64_t step) {
  given_up_ = step;
  if (reached_.step == step) reached_ = {step};
}

void ReadableResults::begin(Job& job) {
  if (runs_forward(job.run)) {
    if (passes_.forward != job.graph) passes_.forward = job.graph;
    passes_.gradient = nullptr;
    passes_.rows = job.rows;
    forward_run_ = job.run;
    forward_arrays_.swap(job.bound);
  } else if (job.run == Run::gradient) {
    gradient_arrays_.swap(job.bound);
  }
}

void ReadableResults::end(const Job& job) {
  if (job.graph->mode == Mode::training) reached_ = job.after;
  if (!runs_gradient(job.run) || job.graph->mode != Mode::training) return;
  passes_.gradient = job.graph;
  gradient_run_ = job.run;
}

ReadableResults::Readable ReadableResults::find(const Tensor& tensor) const {
  const auto handle = handles_.find(&tensor);
  return handle != handles_.end() ? gradient(*handle->second) : result(tensor);
}

ReadableResults::Readable ReadableResults::result(const Tensor& tensor) const {
  const std::string subject = "[tensor '" + tensor.label() + "'] ";
  const CompiledGraph* forward = passes_.forward.get();
  if (forward == nullptr) {
    throw InvalidArgument(subject + "no forward pass has computed it, or its memory was reused");
  }
  const auto found = forward->tensors.find(&tensor);
  const bool known = found != forward->tensors.end() && found->second != kNone;
  const ir::Graph& ops = forward->program->graph;
  const bool bound = known && ops.value(found->second).source != ir::Source::node;
  if (!known || (!bound && !ops.value(found->second).keep)) {
    throw InvalidArgument(subject +
                          "is not readable: its memory is reused; declare it with add_outputs");
  }
  return {forward, forward_run_, found->second, passes_.rows};
}

ReadableResults::Readable ReadableResults::gradient(const Tensor& of) const {
  const std::string subject = "[gradient of '" + of.label() + "'] ";
  const CompiledGraph* pass = passes_.gradient.get();
  if (pass == nullptr) {
    throw InvalidArgument(subject + "expected a gradient pass before reading it");
  }
  const auto found = pass->gradients.find(&of);
  if (found == pass->gradients.end() || found->second == kNone) {
    throw InvalidArgument(
        subject +
        "is not computed: the parameter is frozen, nothing flows there, or it was not asked for "
        "(gradients of inputs need COMPUTE_ALL_GRADIENTS, others add_outputs)");
  }
  const ir::Value& value = pass->program->graph.value(found->second);
  if (gradient_run_ == Run::step && !value.keep && value.writes == kNone) {
    throw InvalidArgument(subject +
                          "is not readable after a full execute: its memory is reused; use "
                          "execute_gradient or declare it with add_outputs");
  }
  return {pass, gradient_run_, found->second, passes_.rows};
}

TensorData ReadableResults::copy_out(const Readable& readable) const {
  return traingraph::copy_out(backend_, left(readable));
}

TensorData ReadableResults::copy(const Tensor& tensor) const { return copy_out(find(tensor)); }

TensorData ReadableResults::copy_of_gradient(const Tensor& of) const {
  return copy_out(gradient(of));
}

Scored ReadableResults::room_for_scored(const Job& job) {
  const CompiledGraph& graph = *job.graph;
  if (graph.prediction == nullptr) {
    throw InvalidArgument(
        "[evaluate] expected a loss layer, whose prediction and labels metrics read");
  }
  const auto room = [&](const TensorPtr& tensor) {
    return host_array(graph.type(graph.tensors.at(tensor.get()), job.rows));
  };
  return {room(graph.prediction), room(graph.label)};
}

void ReadableResults::copy_scored(const Scored& to) const {
  const CompiledGraph& forward = *passes_.forward;
  for (const auto& [tensor, data] :
       {std::pair(&forward.prediction, &to.first), std::pair(&forward.label, &to.second)}) {
    traingraph::copy_out(backend_, left(result(**tensor)), *data);
  }
}

TensorData ReadableResults::view(const Tensor& tensor,
                                 const std::shared_ptr<std::byte>& arena) const {
  const Readable readable = find(tensor);
  const ir::Value& value = readable.graph->program->graph.value(readable.value);
  if (!value.layout.plain()) {
    throw Unsupported("[tensor '" + tensor.label() + "'] expected a dense row-major value but " +
                      backend_.name() + " keeps it as " + ir::to_string(value.layout) +
                      "; read it with copy_data_from_device_memory");
  }
  // Whoever gets an address of a GPU orders what it does there; a host's is read at once.
  if (gpu_of(backend_) < 0) finish_work(backend_);
  const ir::Type type = readable.graph->type(readable.value, readable.rows);
  TensorData data;
  data.bytes =
      const_cast<std::byte*>(readable.graph->program->address(readable.run, readable.value));
  data.length = ir::storage_bytes(type, {});
  data.data_type = type.data_type;
  data.shape = type.shape;
  data.writable = false;
  data.gpu = gpu_of(backend_);
  data.owner = keeper_of(readable, arena);
  return data;
}

std::shared_ptr<const void> ReadableResults::keeper_of(
    const Readable& readable, const std::shared_ptr<std::byte>& arena) const {
  const ir::ValueId root = readable.graph->program->roots[static_cast<std::size_t>(readable.value)];
  for (const std::vector<BoundArray>* arrays : {&forward_arrays_, &gradient_arrays_}) {
    for (const BoundArray& array : *arrays) {
      if (array.value != root) continue;
      if (array.slot == nullptr) return array.owner;
      using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
      return std::make_shared<const Both>(array.owner, array.slot->memory);
    }
  }
  return arena;
}

}  // namespace traingraph
