// What linked graphs hand to each other: forward values one way, gradients the other.
#include <traingraph/errors.h>

#include "graph/executor_job.h"
#include "runtime/transfer.h"

namespace traingraph {

using ir::kNone;

// Memory for what this program hands over. Nothing runs meanwhile.
void Executor::place_exchanges(CompiledGraph& graph) {
  graph.handed.clear();
  if (links_ == nullptr) return;
  LinkSet& links = *links_;
  auto place = [&](const Tensor* tensor, ir::ValueId value, bool gradient, const ir::Type& type) {
    Exchange& exchange = links.exchange(tensor, gradient ? graph_.number : 0);
    const std::size_t bytes = ir::storage_bytes(type, {});
    if (exchange.capacity < bytes || exchange.backend != &backend_) {
      exchange.backend = &backend_;
      exchange.bytes = backend_.allocate(bytes);
      exchange.capacity = bytes;
      const std::lock_guard lock(links.mutex);
      exchange.written = false;
    }
    graph.handed.push_back({&exchange, tensor, value, gradient});
  };
  const ir::Graph& ops = graph.program->graph;
  for (const auto& [tensor, value] : graph.tensors) {
    if (value == kNone || graph_.producer(tensor) == nullptr) continue;
    if (links.readers(graph_, tensor, false).empty()) continue;
    place(tensor, value, false, ops.type(value));
  }
  if (graph.mode != Mode::training) return;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.from != BoundSlot::From::linked_value || slot.value == kNone) continue;
    const ir::Type& type = ops.type(slot.value);
    if (!is_floating_point(type.data_type)) continue;
    const auto found = graph.gradients.find(slot.tensor.get());
    place(slot.tensor.get(), found == graph.gradients.end() ? kNone : found->second, true, type);
  }
}

void Executor::bind_exchange(Job& job, const BoundSlot& slot) {
  LinkSet& links = *links_;
  const std::lock_guard lock(links.mutex);
  const bool gradient = slot.from == BoundSlot::From::linked_gradient;
  const Exchange& exchange = links.exchange(slot.tensor.get(), gradient ? slot.linked_graph : 0);
  const std::string what =
      gradient ? "the gradient of tensor '" + slot.tensor->label() + "' from a linked graph"
               : "tensor '" + slot.tensor->label() + "' from a linked graph";
  if (!exchange.written) {
    throw InvalidArgument("[execute] expected " + what +
                          " but that graph has not been executed since; execute it first");
  }
  const bool reachable = exchange.backend == &backend_ ||
                         (exchange.backend->uses_host_memory() && backend_.uses_host_memory());
  if (!reachable) {
    throw Unsupported("[execute] expected linked graphs on one device but " + what + " is on " +
                      exchange.backend->name() + " and is read on " + backend_.name());
  }
  const ir::Type& type = job.graph->program->graph.type(slot.value);
  if (type.batched && exchange.batch != job.graph->batch) {
    throw ShapeError("[execute] expected " + what + " for batch size " +
                     std::to_string(job.graph->batch) + " but it was executed with " +
                     std::to_string(exchange.batch));
  }
  job.bound.push_back({slot.value, exchange.bytes.get(), exchange.bytes});
}

void Executor::announce_exchanges(const Job& job) {
  if (links_ == nullptr) return;
  LinkSet& links = *links_;
  const std::lock_guard lock(links.mutex);
  for (const CompiledGraph::Handed& handed : job.graph->handed) {
    if (!handed.by(job.run)) continue;
    handed.to->written = true;
    handed.to->batch = job.graph->batch;
    if (handed.gradient) continue;
    // Gradients belong to the forward pass before them.
    for (Exchange& other : links.exchanges) {
      if (other.tensor == handed.tensor && other.reader != 0) other.written = false;
    }
  }
}

void Executor::write_exchanges(const Job& job) {
  const Program& program = *job.graph->program;
  for (const CompiledGraph::Handed& handed : job.graph->handed) {
    if (!handed.by(job.run)) continue;
    std::byte* to = handed.to->bytes.get();
    if (to == nullptr) continue;  // a backend that computes nothing
    if (handed.value == kNone) {
      backend_.clear(to, handed.to->capacity);
      continue;
    }
    const ir::Value& value = program.graph.value(handed.value);
    convert(backend_, value.type, value.layout, program.address(job.run, handed.value), {}, to);
  }
}

}  // namespace traingraph
