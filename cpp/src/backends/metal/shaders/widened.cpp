// Ops over 16-bit numbers: their operands are widened to float32 beside the arena, the op runs on
// these, and its results are narrowed. So every kernel is written for float32 alone.
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

// The node alone over float32: value k is its operand k, inputs first.
struct Alone {
  ir::Graph graph;

  Alone(const ir::Graph& from, const ir::Node& node) {
    graph.layers = from.layers;
    std::vector<ir::ValueId> inputs;
    std::vector<ir::Type> results;
    for (ir::ValueId id : node.inputs) {
      inputs.push_back(graph.add_source(ir::Source::bound, 0, float32(from.type(id)), {}));
    }
    for (ir::ValueId id : node.outputs) results.push_back(float32(from.type(id)));
    graph.layer = node.layer;
    graph.add_node(node.op, in_float32(node.attributes), std::move(inputs), results);
  }

  const ir::Node& node() const { return graph.nodes[0]; }

 private:
  static ir::Type float32(ir::Type type) {
    if (ir::is_half(type.data_type)) type.data_type = DataType::kFloat32;
    return type;
  }
  static ir::Attributes in_float32(ir::Attributes attributes) {
    if (auto* list = std::get_if<ir::ElementwiseAttributes>(&attributes)) {
      list->result_types.clear();
    } else if (auto* product = std::get_if<ir::MatmulAttributes>(&attributes)) {
      product->result_type = DataType::kInvalid;
    }
    return attributes;
  }
};

// Whether its results have the bits of its operands: of NaN those would change on the way to
// float32.
bool only_moves(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::concatenate:
    case ir::Op::slice:
    case ir::Op::pad:
    case ir::Op::transpose:
    case ir::Op::gather:
    case ir::Op::scatter_gradient:
    case ir::Op::select:
      return true;
    case ir::Op::scatter:
      return !std::get<ir::ScatterAttributes>(node.attributes).adds;
    default:
      return false;
  }
}

bool has_half(const ir::Graph& graph, const ir::Node& node) {
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (ir::is_half(graph.type(id).data_type)) return true;
    }
  }
  return false;
}

// The entry that takes the node over float32, or the reasons why none does.
const KernelEntry* entry_for(const Alone& alone, std::string& reasons) {
  for (const KernelEntry& entry : table()) {
    if (entry.op != alone.node().op) continue;
    const Support support = entry.supports(alone.graph, alone.node());
    if (support.yes) return &entry;
    reasons += (reasons.empty() ? "" : "; ") + support.reason;
  }
  return nullptr;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (!has_half(graph, node)) return Support::no("no operand of 16 bits");
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (!graph.value(id).layout.plain())
        return Support::no("16 bits in a layout that is not plain");
    }
  }
  std::string reasons;
  if (entry_for(Alone(graph, node), reasons) == nullptr) return Support::no(reasons);
  return {};
}

class Widened final : public Kernel {
 public:
  Widened(const ir::Graph& graph, const ir::Node& node, Device& device)
      : widen_(device.shader("widen")),
        narrow_(device.shader("narrow")),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())),
        inputs_(node.inputs.size()) {
    for (const auto* operands : {&node.inputs, &node.outputs}) {
      for (ir::ValueId id : *operands) add(graph, id, only_moves(node));
    }
    const Alone alone(graph, node);
    std::string reasons;
    inner_ = entry_for(alone, reasons)->make(alone.graph, alone.node(), device);
    // Behind the operands comes the inner kernel's own workspace.
    addresses_.resize(operands_.size() + 1);
    own_bytes_ = bytes_;
    bytes_ += inner_->workspace_bytes();
  }

  std::size_t workspace_bytes() const override { return bytes_; }

  void encode(Pointers pointers, Encoding& encoding) override {
    std::byte* const scratch = pointers[workspace_];
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      const Operand& operand = operands_[k];
      addresses_[k] = operand.half ? scratch + operand.offset : pointers[operand.value];
      if (operand.half && k < inputs_) {
        convert(encoding, widen_, pointers[operand.value], addresses_[k], operand);
      }
    }
    addresses_[operands_.size()] = scratch + own_bytes_;
    inner_->encode(addresses_.data(), encoding);
    for (std::size_t k = inputs_; k < operands_.size(); ++k) {
      const Operand& operand = operands_[k];
      if (!operand.half) continue;
      convert(encoding, narrow_, addresses_[k], pointers[operand.value], operand);
    }
  }

 private:
  struct Operand {
    ir::ValueId value;
    bool half;
    shader::Half type;
    std::int64_t elements;
    std::size_t offset;  // of its float32 form in the workspace
  };

  void add(const ir::Graph& graph, ir::ValueId id, bool is_moved) {
    const ir::Type& type = graph.type(id);
    const bool half = ir::is_half(type.data_type);
    const int kind = is_moved ? 2 : type.data_type == DataType::kBFloat16 ? 1 : 0;
    operands_.push_back({id, half, {kind}, type.elements(), bytes_});
    if (half) {
      bytes_ += (static_cast<std::size_t>(type.elements()) * sizeof(float) + 63) / 64 * 64;
    }
  }

  static void convert(Encoding& encoding, const Shader& shader, const std::byte* from,
                      const std::byte* to, const Operand& operand) {
    const std::byte* buffers[] = {from, to};
    encoding.run(shader, buffers, 2, &operand.type, sizeof operand.type, operand.elements);
  }

  const Shader& widen_;
  const Shader& narrow_;
  std::size_t workspace_;
  std::size_t inputs_;
  std::vector<Operand> operands_;      // inputs, then results
  std::vector<std::byte*> addresses_;  // of the same during a run, and of the inner workspace
  std::size_t bytes_ = 0, own_bytes_ = 0;
  std::unique_ptr<Kernel> inner_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return std::make_unique<Widened>(graph, node, device);
}

}  // namespace

std::vector<KernelEntry> widened_entries() {
  std::vector<KernelEntry> entries;
#define TRAINGRAPH_OP(name, attributes, cpu) \
  if (ir::Op::name != ir::Op::reshape) entries.push_back({ir::Op::name, supports, make});
#define TRAINGRAPH_FOREIGN_OP(name, attributes)
#include "ops.def"
#undef TRAINGRAPH_OP
  return entries;
}

}  // namespace traingraph::metal
