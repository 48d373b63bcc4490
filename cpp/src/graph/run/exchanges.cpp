// Transfers between linked graphs: buffers for forward values and gradients, in the order of
// submission.
#include "graph/run/exchanges.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "runtime/device_memory.h"
#include "runtime/memory/transfer.h"

namespace traingraph {

using ir::kNone;

void Exchanges::place(CompiledGraph& graph) {
  graph.sent.clear();
  if (links_ == nullptr) return;
  LinkSet& links = *links_;
  auto place = [&](const Tensor* tensor, ir::ValueId value, bool gradient, const ir::Type& type) {
    const std::lock_guard lock(links.mutex);
    Exchange& exchange = links.exchange(tensor, gradient ? graph_.number : 0);
    const std::size_t bytes = ir::storage_bytes(type, {});
    if (exchange.capacity < bytes || exchange.backend != &backend_) {
      exchange.backend = &backend_;
      exchange.bytes = backend_.allocate(bytes);
      exchange.capacity = bytes;
      exchange.written = false;
    }
    graph.sent.push_back({&exchange, tensor, value, gradient, type.shape});
  };
  const ir::Graph& ops = graph.program->graph;
  for (const auto& [tensor, value] : graph.tensors) {
    if (value == kNone || graph_.producer(tensor) == nullptr) continue;
    if (links.readers(graph_, tensor, false).empty()) continue;
    place(tensor, value, false, ops.type(value));
  }
  if (graph.mode != Mode::training) return;
  for (const BoundSlot& slot : graph.bound) {
    if (!slot.may_be_linked() || slot.value == kNone) continue;
    const ir::Type& type = ops.type(slot.value);
    if (!is_floating_point(type.data_type)) continue;
    const auto found = graph.gradients.find(slot.tensor.get());
    place(slot.tensor.get(), found == graph.gradients.end() ? kNone : found->second, true, type);
  }
}

BoundArray Exchanges::bound(const CompiledGraph& graph, const BoundSlot& slot) const {
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
                         (uses_host_memory(*exchange.backend) && uses_host_memory(backend_));
  if (!reachable) {
    throw Unsupported("[execute] expected linked graphs on one device but " + what + " is on " +
                      exchange.backend->name() + " and is read on " + backend_.name());
  }
  const ir::Type& type = graph.program->graph.type(slot.value);
  if (type.shape != exchange.shape) {
    const bool other_batch = type.batched && exchange.batch != 0 && exchange.batch != graph.batch;
    throw ShapeError(
        "[execute] expected " + what +
        (other_batch
             ? " for batch size " + std::to_string(graph.batch) + " but it was executed with " +
                   std::to_string(exchange.batch)
             : " of shape " + to_string(type.shape) + " but got " + to_string(exchange.shape)));
  }
  return {slot.value, exchange.bytes.get(), exchange.bytes};
}

std::uint64_t Exchanges::count_binding() const {
  if (links_ == nullptr) return 0;
  const std::lock_guard lock(links_->mutex);
  return ++links_->events;
}

bool Exchanges::is_newer(const Tensor& tensor, std::uint64_t than) const {
  const std::lock_guard lock(links_->mutex);
  const Exchange& exchange = links_->exchange(&tensor, 0);
  return exchange.written && exchange.written_at > than;
}

void Exchanges::note_read(const CompiledGraph& graph, const std::vector<BoundArray>& bound) {
  if (links_ == nullptr) return;
  const std::lock_guard lock(links_->mutex);
  read_.clear();
  for (const BoundSlot& slot : graph.bound) {
    if (!slot.may_be_linked()) continue;
    const Exchange& exchange = links_->exchange(slot.tensor.get(), 0);
    const auto is_it = [&](const BoundArray& array) {
      return array.value == slot.value && array.address == exchange.bytes.get();
    };
    if (!std::ranges::any_of(bound, is_it)) continue;  // the caller's
    read_.emplace_back(slot.tensor.get(), exchange.written_at);
  }
}

void Exchanges::check_read() const {
  if (read_.empty()) return;
  const std::lock_guard lock(links_->mutex);
  for (const auto& [tensor, written_at] : read_) {
    if (links_->exchange(tensor, 0).written_at == written_at) continue;
    throw InvalidArgument("[execute_gradient] expected tensor '" + tensor->label() +
                          "' from a linked graph as execute_forward has read it, but that graph "
                          "was executed since; start again with execute_forward");
  }
}

void Exchanges::announce(const CompiledGraph& graph, Run run) {
  if (links_ == nullptr) return;
  LinkSet& links = *links_;
  const std::lock_guard lock(links.mutex);
  for (const CompiledGraph::Sent& sent : graph.sent) {
    if (!sent.by(run)) continue;
    sent.to->written = true;
    sent.to->written_at = ++links.events;
    sent.to->batch = graph.batch;
    sent.to->shape = sent.shape;  // as long as the one before: nothing is allocated
    if (sent.gradient) continue;
    // Gradients belong to the forward pass before them.
    for (Exchange& other : links.exchanges) {
      if (other.tensor == sent.tensor && other.reader != 0) other.written = false;
    }
  }
}

void Exchanges::write(const CompiledGraph& graph, Run run) const {
  const Program& program = *graph.program;
  for (const CompiledGraph::Sent& sent : graph.sent) {
    if (!sent.by(run)) continue;
    std::byte* to = sent.to->bytes.get();
    if (to == nullptr) continue;  // a backend that computes nothing
    if (sent.value == kNone) {
      clear_memory(backend_, to, sent.to->capacity);
      continue;
    }
    const ir::Value& value = program.graph.value(sent.value);
    convert(backend_, value.type, value.layout, program.address(run, sent.value), {}, to);
  }
}

void Exchanges::list(const CompiledGraph& graph, MemoryPlan& plan) const {
  for (const CompiledGraph::Sent& sent : graph.sent) {
    plan.entries.push_back({sent.tensor->label(), "exchange", sent.to->capacity});
    plan.exchange_bytes += sent.to->capacity;
  }
}

}  // namespace traingraph
