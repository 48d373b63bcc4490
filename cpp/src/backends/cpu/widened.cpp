// Kernels for operands of 16 bits around this backend's other kernels: results of 16 bits are
// rounded once, and operands are widened in the workspace where no kernel takes them as they are.
#include <algorithm>
#include <set>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

using ir::ValueId;

const std::vector<KernelEntry>& float32_table() {
  static const std::vector<KernelEntry> entries = float32_entries();
  return entries;
}

// A node alone, whose results of 16 bits are float32, and its operands too, unless a library's sum
// of weights' gradients takes them as they are.
class WideNode {
 public:
  WideNode(const ir::Graph& graph, const ir::Node& node) {
    if (node.op == ir::Op::convolution_gradient_weights) {
      make(graph, node, false);
      entry_ = find_entry();
      if (entry_ != nullptr) return;
    }
    make(graph, node, true);
    entry_ = find_entry();
  }

  // Its value for one of the graph's.
  ValueId value_for(const ir::Graph& graph, ValueId id, bool widens = true) {
    const auto found = std::find(own_.begin(), own_.end(), id);
    if (found != own_.end()) return static_cast<ValueId>(found - own_.begin());
    ir::Value value;
    value.type = graph.type(id);
    value.layout = graph.value(id).layout;
    if (widens && ir::is_half(value.type.data_type)) value.type.data_type = DataType::kFloat32;
    graph_.values.push_back(std::move(value));
    own_.push_back(id);
    return static_cast<ValueId>(own_.size()) - 1;
  }

  const ir::Graph& graph() const { return graph_; }
  const ir::Node& node() const { return graph_.nodes[0]; }
  const std::vector<ValueId>& own() const { return own_; }

  // The other kernel's entry; null if there is none.
  const KernelEntry* entry() const { return entry_; }

 private:
  void make(const ir::Graph& graph, const ir::Node& node, bool widens_inputs) {
    graph_ = {};
    own_.clear();
    ir::Node wide{node.op, node.attributes, {}, {}, node.phase, node.pair};
    if (auto* matmul = std::get_if<ir::MatmulAttributes>(&wide.attributes)) {
      matmul->result_type = DataType::kInvalid;
    }
    for (ValueId id : node.inputs) wide.inputs.push_back(value_for(graph, id, widens_inputs));
    for (ValueId id : node.outputs) wide.outputs.push_back(value_for(graph, id));
    graph_.nodes.push_back(std::move(wide));
  }

  const KernelEntry* find_entry() const {
    for (const KernelEntry& entry : float32_table()) {
      if (entry.op == node().op && entry.supports(graph_, node()).yes) return &entry;
    }
    return nullptr;
  }

  ir::Graph graph_;
  const KernelEntry* entry_ = nullptr;
  std::vector<ValueId> own_;  // the graph's value for each of its values
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const ir::Graph& graph, const ir::Node& node)
      : workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    const WideNode wide(graph, node);
    kernel_ = wide.entry()->make(wide.graph(), wide.node());
    for (ValueId id : wide.own()) {
      const ir::Value& value = graph.value(id);
      Operand operand{id, value.type.data_type, Use::full, 0, 0, 1};
      const ir::Value& own = wide.graph().values[operands_.size()];
      if (own.type.data_type != operand.type) {
        const bool is_result =
            std::find(node.outputs.begin(), node.outputs.end(), id) != node.outputs.end();
        operand.use = is_result ? Use::result : Use::source;
        operand.elements = ir::padded_elements(value.type.shape, value.layout);
        operand.offset = bytes_;
        operand.threads =
            threads_for(nanoseconds_to_move(6.0 * static_cast<double>(operand.elements)));
        bytes_ += (static_cast<std::size_t>(operand.elements) * sizeof(float) + 63) / 64 * 64;
      }
      operands_.push_back(operand);
    }
    addresses_.resize(operands_.size() + 1);
  }

  std::size_t workspace_bytes() const override { return bytes_ + kernel_->workspace_bytes(); }

  void run(Pointers pointers) override {
    std::byte* const scratch = pointers[workspace_];
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      const Operand& o = operands_[k];
      addresses_[k] = o.use == Use::full ? pointers[o.value] : scratch + o.offset;
      if (o.use != Use::source) continue;
      float* const wide = reinterpret_cast<float*>(addresses_[k]);
      for_parts(o, [&](std::int64_t at, std::int64_t n) {
        widen(o.type, pointers[o.value] + 2 * at, wide + at, n);
      });
    }
    addresses_.back() = scratch + bytes_;
    kernel_->run(addresses_.data());
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      const Operand& o = operands_[k];
      if (o.use != Use::result) continue;
      const float* const wide = reinterpret_cast<const float*>(addresses_[k]);
      for_parts(o, [&](std::int64_t at, std::int64_t n) {
        narrow(o.type, wide + at, pointers[o.value] + 2 * at, n);
      });
    }
  }

 private:
  enum class Use : std::uint8_t { full, source, result };  // full: not of 16 bits
  struct Operand {
    ValueId value;
    DataType type;
    Use use;
    std::int64_t elements;
    std::size_t offset;  // of its float32 form in the workspace
    int threads;
  };

  // f(first element, count)
  template <class F>
  static void for_parts(const Operand& o, const F& f) {
    constexpr std::int64_t kPartElements = 16384;
    parallel_for((o.elements + kPartElements - 1) / kPartElements, o.threads,
                 [&](std::int64_t part) {
                   const std::int64_t at = part * kPartElements;
                   f(at, std::min(kPartElements, o.elements - at));
                 });
  }

  std::size_t workspace_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Operand> operands_;
  std::vector<std::byte*> addresses_;  // of the same, and the kernel's workspace, during a run
  std::size_t bytes_ = 0;
};

bool has_half(const ir::Graph& graph, const ir::Node& node) {
  const auto is_half = [&](ValueId id) { return ir::is_half(graph.type(id).data_type); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_half) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_half);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (!has_half(graph, node)) return Support::no("no operand of 16 bits");
  if (WideNode(graph, node).entry() != nullptr) return {};
  return Support::no("no float32 kernel for operands of 16 bits");
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<WidenedKernel>(graph, node);
}

LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const WideNode wide(graph, node);
  const auto choose = wide.entry()->layouts;
  return choose == nullptr ? plain_layouts(node) : choose(wide.graph(), wide.node());
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ValueId>& extra) {
  WideNode wide(graph, node);
  std::vector<ValueId> wide_extra;
  for (ValueId id : extra) wide_extra.push_back(wide.value_for(graph, id));
  const auto fuses = wide.entry()->fuses;
  return fuses != nullptr && fuses(wide.graph(), wide.node(), list, wide_extra);
}

}  // namespace

const std::vector<KernelEntry>& widened_entries() {
  static const std::vector<KernelEntry> entries = [] {
    std::vector<KernelEntry> widened;
    std::set<ir::Op> ops;
    for (const KernelEntry& entry : float32_table()) {
      if (ops.insert(entry.op).second)
        widened.push_back({entry.op, supports, make, layouts, fuses});
    }
    return widened;
  }();
  return entries;
}

}  // namespace traingraph::cpu
