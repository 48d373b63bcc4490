#include "backends/reference/reference.h"

#include "backends/reference/widened.h"
#include "ir/cast.h"
#include "ir/ending.h"

namespace traingraph::reference {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const ir::Graph& graph, const ir::Node& node, Compute compute)
      : node_(node), compute_(compute) {
    for (ir::ValueId id : node.inputs) {
      inputs_.push_back(graph.type(id));
      input_layouts_.push_back(graph.value(id).layout);
    }
    for (ir::ValueId id : node.outputs) {
      outputs_.push_back(graph.type(id));
      output_layouts_.push_back(graph.value(id).layout);
    }
  }

  void run(Pointers pointers) override {
    compute_({node_, inputs_, outputs_, input_layouts_, output_layouts_, pointers});
  }

 private:
  ir::Node node_;
  std::vector<ir::Type> inputs_, outputs_;
  std::vector<ir::Layout> input_layouts_, output_layouts_;
  Compute compute_;
};

// The floating-point types among a node's operands.
struct FloatTypes {
  bool full = false;
  bool wide = false;
  bool half = false;

  FloatTypes(const ir::Graph& graph, const ir::Node& node) {
    for (ir::ValueId id : node.inputs) add(graph.type(id).data_type);
    for (ir::ValueId id : node.outputs) add(graph.type(id).data_type);
  }

 private:
  void add(DataType type) {
    full = full || type == DataType::kFloat32;
    wide = wide || type == DataType::kFloat64;
    half = half || ir::is_half(type);
  }
};

// To or from float64, over equal shapes.
bool is_cast(const ir::Graph& graph, const ir::Node& node) {
  const auto* a = std::get_if<ir::ElementwiseAttributes>(&node.attributes);
  return a != nullptr && ir::is_cast(*a) &&
         graph.type(node.inputs[0]).shape == graph.type(node.outputs[0]).shape;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const FloatTypes types(graph, node);
  if (types.wide && (types.full || types.half) && !is_cast(graph, node)) {
    return Support::no("float64 beside other floating-point types");
  }
  if (!types.wide && !types.full && !types.half) {
    return Support::no(std::string("data type ") + name(graph.type(node.outputs[0]).data_type) +
                       " (reference computes in float32 and float64)");
  }
  for (ir::ValueId id : node.inputs) {
    if (graph.type(id).rank() > 8) return Support::no("more than 8 axes");
  }
  if (ir::has_ending(node)) return Support::no("an epilogue, a prologue or coefficients");
  const auto* list = std::get_if<ir::ElementwiseAttributes>(&node.attributes);
  if (list != nullptr && list->list.registers() > 256) {
    return Support::no("a list of more than 256 registers");
  }
  return {};
}

template <Compute kFloat, Compute kDouble>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  const FloatTypes types(graph, node);
  if (types.wide && (types.full || types.half)) return make_wide_cast(graph, node);
  if (types.half) return make_widened(graph, node, kFloat);
  const bool wide = types.wide;
  return std::make_unique<ReferenceKernel>(graph, node, wide ? kDouble : kFloat);
}

class ReferenceBackend final : public HostBackend {
 public:
  std::string name() const override { return "reference"; }
  std::vector<std::string> devices() const override { return {"reference loops"}; }

 protected:
  const std::vector<KernelEntry>& table() const override { return reference::table(); }
};

}  // namespace

const std::vector<KernelEntry>& table() {
  static const std::vector<KernelEntry> entries = {
      reorder_entry(),
#define TRAINGRAPH_OP(name, attributes, cpu) \
  {ir::Op::name, supports, make<name<float>, name<double>>, nullptr, nullptr},
#define TRAINGRAPH_FOREIGN_OP(name, attributes)
#include "ops.def"
#undef TRAINGRAPH_OP
  };
  return entries;
}

const Backend& backend() {
  static const ReferenceBackend instance;
  return instance;
}

}  // namespace traingraph::reference
