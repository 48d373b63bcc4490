// The same tensor from one layout to another. Padding of the result becomes zero.
#include <cstring>

#include "backends/cpu/onednn/kernel.h"

namespace traingraph::cpu {
namespace {

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = supports_operands(graph, node); !s.yes) return s;
  const Shape& shape = graph.type(node.inputs[0]).shape;
  if (!describe(shape, graph.value(node.inputs[0]).layout) ||
      !describe(shape, graph.value(node.outputs[0]).layout)) {
    return Support::no("oneDNN: a layout that it does not have");
  }
  return {};
}

// Layouts that differ in name only, as plain and channels-last with one channel.
class CopyKernel final : public Kernel {
 public:
  CopyKernel(ir::ValueId from, ir::ValueId to, std::size_t bytes)
      : from_(from), to_(to), bytes_(bytes) {}
  void run(Pointers pointers) override {
    if (pointers[from_] != pointers[to_]) std::memcpy(pointers[to_], pointers[from_], bytes_);
  }

 private:
  ir::ValueId from_, to_;
  std::size_t bytes_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& source = graph.value(node.inputs[0]);
  const ir::Value& result = graph.value(node.outputs[0]);
  const Shape& shape = source.type.shape;
  const auto from = *describe(shape, source.layout), to = *describe(shape, result.layout);
  if (layout_of(from) == layout_of(to)) {
    return std::make_unique<CopyKernel>(node.inputs[0], node.outputs[0], from.get_size());
  }
  return guarded("reorder", [&] {
    const auto bytes = static_cast<double>(from.get_size() + to.get_size());
    const int threads = library_threads(nanoseconds_to_move(bytes));
    const ThreadScope scope(threads);
    const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                    onednn_attributes());
    return make_primitive_kernel(
        graph, node, "reorder", dnnl::reorder(description), description,
        {{DNNL_ARG_FROM, node.inputs[0], from}, {DNNL_ARG_TO, node.outputs[0], to}}, threads);
  });
}

// Takes operands as they lie.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  return {{graph.value(node.inputs[0]).layout}, {graph.value(node.outputs[0]).layout}};
}

}  // namespace

const std::vector<KernelEntry>& reorder_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::reorder, supports, make, layouts, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
