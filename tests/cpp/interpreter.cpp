// Runs a graph node by node with guard bytes around every value, checked after each node.
#include "interpreter.h"
#include "runtime/device_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <traingraph/errors.h>

namespace traingraph::testing {
namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xA5};

// A reshape is a view: no kernel runs, the bytes are the source's.
bool is_view(const ir::Node& node) { return node.op == ir::Op::reshape; }

}  // namespace

Interpreter::Interpreter(const ir::Graph& graph, const Backend& backend)
    : graph_(graph), backend_(backend) {
  ir::verify(graph);
  std::vector<ir::NodeId> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_view(graph.nodes[n])) nodes.push_back(static_cast<ir::NodeId>(n));
  }
  executable_ = backend.compile(graph, nodes);
  for (const ir::Value& value : graph.values) {
    pointers_.push_back(allocate(ir::storage_bytes(value.type, value.layout)));
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const bool view = is_view(graph.nodes[n]);
    pointers_.push_back(
        allocate(view ? 0 : executable_->workspace_bytes(static_cast<ir::NodeId>(n))));
  }
}

std::byte* Interpreter::allocate(std::size_t bytes) {
  Guarded buffer;
  buffer.storage.assign(bytes + 2 * kGuard + 64, kGuardByte);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.storage.data());
  const std::size_t shift = (64 - address % 64) % 64;
  buffer.begin = buffer.storage.data() + shift + kGuard;
  buffer.bytes = bytes;
  buffer.address = buffer.begin;
  std::memset(buffer.begin, 0xFF, bytes);
  if (!uses_host_memory(backend_)) {
    buffer.mirror = backend_.allocate(buffer.storage.size());
    buffer.address = buffer.mirror.get() + kGuard;
    send(buffer);
  }
  buffers_.push_back(std::move(buffer));
  return buffers_.back().address;
}

void Interpreter::send(const Guarded& buffer) const {
  if (buffer.mirror == nullptr) return;
  write_memory(backend_, buffer.mirror.get(), buffer.begin - kGuard, buffer.bytes + 2 * kGuard);
}

void Interpreter::fetch(Guarded& buffer) const {
  if (buffer.mirror == nullptr) return;
  read_memory(backend_, buffer.begin - kGuard, buffer.mirror.get(), buffer.bytes + 2 * kGuard);
}

void Interpreter::check_guards(const ir::Node& node) const {
  for (const Guarded& buffer : buffers_) {
    auto intact = [](std::byte b) { return b == kGuardByte; };
    const std::byte* end = buffer.begin + buffer.bytes;
    if (!std::all_of(buffer.begin - kGuard, buffer.begin, intact) ||
        !std::all_of(end, end + kGuard, intact)) {
      throw InternalError("[interpreter] " + std::string(ir::name(node.op)) +
                          " wrote outside its buffers");
    }
  }
}

void Interpreter::set(ir::ValueId value, const void* bytes) {
  const ir::Value& v = graph_.value(value);
  std::memcpy(buffers_[index(value)].begin, bytes, ir::storage_bytes(v.type, v.layout));
  send(buffers_[index(value)]);
}

void Interpreter::run() {
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const ir::Node& node = graph_.nodes[n];
    if (is_view(node)) {
      const Guarded& source = buffers_[index(node.inputs[0])];
      std::memcpy(buffers_[index(node.outputs[0])].begin, source.begin, source.bytes);
      send(buffers_[index(node.outputs[0])]);
      continue;
    }
    const auto id = static_cast<ir::NodeId>(n);
    executable_->run(&id, 1, pointers_.data(), nullptr);
    for (Guarded& buffer : buffers_) fetch(buffer);
    check_guards(node);
  }
}

}  // namespace traingraph::testing
