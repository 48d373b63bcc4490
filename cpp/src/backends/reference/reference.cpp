// The reference backend and its table of plain loops, one entry per op. Host backends use the table
// as fallback.
#include "backends/reference/reference.h"

#include "backends/reference/any_type.h"
#include "ir/cast.h"
#include "ir/epilogue.h"

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
  for (ir::ValueId id : node.inputs) {
    if (graph.type(id).rank() > 8) return Support::no("more than 8 axes");
  }
  if (any_type_loops(node.op, DataType::kFloat32) != nullptr) return {};
  const FloatTypes types(graph, node);
  if (types.wide && (types.full || types.half) && !is_cast(graph, node)) {
    return Support::no("float64 beside other floating-point types");
  }
  if (!types.wide && !types.full && !types.half) {
    return Support::no(std::string("data type ") + name(graph.type(node.outputs[0]).data_type) +
                       " (reference computes in float32 and float64)");
  }
  if (ir::has_fused_work(node)) return Support::no("an epilogue, a prologue or coefficients");
  const auto* list = std::get_if<ir::ElementwiseAttributes>(&node.attributes);
  if (list != nullptr && list->list.registers() > 256) {
    return Support::no("a list of more than 256 registers");
  }
  return {};
}

}  // namespace

Compute any_type_loops(ir::Op op, DataType type) {
  switch (op) {
#define TRAINGRAPH_LOOPS(name)                                          \
  case ir::Op::name:                                                    \
    switch (type) {                                                     \
      case DataType::kFloat32:                                          \
        return name<float>;                                             \
      case DataType::kFloat64:                                          \
        return name<double>;                                            \
      case DataType::kInt8:                                             \
        return name<std::int8_t>;                                       \
      case DataType::kUInt8:                                            \
        return name<std::uint8_t>;                                      \
      case DataType::kInt32:                                            \
        return name<std::int32_t>;                                      \
      case DataType::kInt64:                                            \
        return name<std::int64_t>;                                      \
      case DataType::kBoolean:                                          \
        return op == ir::Op::scatter ? name<bool> : name<std::uint8_t>; \
      default: /* 16 bits, only moved */                                \
        return name<std::uint16_t>;                                     \
    }
    TRAINGRAPH_LOOPS(concatenate)
    TRAINGRAPH_LOOPS(slice)
    TRAINGRAPH_LOOPS(pad)
    TRAINGRAPH_LOOPS(transpose)
    TRAINGRAPH_LOOPS(gather)
    TRAINGRAPH_LOOPS(scatter)
    TRAINGRAPH_LOOPS(scatter_gradient)
    TRAINGRAPH_LOOPS(check_indices)
    TRAINGRAPH_LOOPS(select)
    TRAINGRAPH_LOOPS(compare)
    TRAINGRAPH_LOOPS(extremum)
    TRAINGRAPH_LOOPS(constant)
#undef TRAINGRAPH_LOOPS
    default:
      return nullptr;
  }
}

namespace {

// What the loops of such an op see: of a comparison its operands' type, else the first result's.
DataType element_type(const ir::Graph& graph, const ir::Node& node) {
  const bool compares = node.op == ir::Op::compare;
  return graph.type(compares ? node.inputs[0] : node.outputs[0]).data_type;
}

// Whether numbers of 16 bits are more than bits.
bool computes(const ir::Node& node) {
  const auto* scatter = std::get_if<ir::ScatterAttributes>(&node.attributes);
  return node.op == ir::Op::compare || node.op == ir::Op::extremum || node.op == ir::Op::constant ||
         (scatter != nullptr && scatter->adds);
}

template <Compute kFloat, Compute kDouble>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  const DataType type = element_type(graph, node);
  if (const Compute loops = any_type_loops(node.op, type)) {
    if (ir::is_half(type) && computes(node)) return make_widened(graph, node, kFloat);
    return std::make_unique<ReferenceKernel>(graph, node, loops);
  }
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

std::vector<KernelEntry> table_behind(std::vector<KernelEntry> own) {
  own.insert(own.end(), table().begin(), table().end());
  return own;
}

const std::vector<KernelEntry>& table() {
  static const std::vector<KernelEntry> entries = {
      reorder_entry(),
      all_reduce_entry(),
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
