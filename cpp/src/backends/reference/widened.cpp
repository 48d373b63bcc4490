// Kernels for 16-bit operands around the float32 loops, and casts to and from float64 that round
// once.
#include "backends/reference/widened.h"

#include <bit>
#include <limits>

#include "runtime/numbers/half.h"

namespace traingraph::reference {
namespace {

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const ir::Graph& graph, const ir::Node& node, Compute compute)
      : node_(node),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())),
        compute_(compute) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_.push_back(operand(graph, node.inputs[i]));
      node_.inputs[i] = static_cast<ir::ValueId>(i);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      outputs_.push_back(operand(graph, node.outputs[k]));
      node_.outputs[k] = static_cast<ir::ValueId>(node.inputs.size() + k);
    }
    input_layouts_.resize(inputs_.size());
    output_layouts_.resize(outputs_.size());
    addresses_.resize(operands_.size());
  }

  std::size_t workspace_bytes() const override { return bytes_; }

  void run(Pointers pointers) override {
    std::byte* const scratch = pointers[workspace_];
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const Operand& o = operands_[i];
      addresses_[i] = o.half ? scratch + o.offset : pointers[o.value];
      if (!o.half || i >= inputs_.size()) continue;
      widen(o.type, pointers[o.value], reinterpret_cast<float*>(addresses_[i]), o.elements);
    }
    compute_({node_, inputs_, outputs_, input_layouts_, output_layouts_, addresses_.data()});
    for (std::size_t i = inputs_.size(); i < operands_.size(); ++i) {
      const Operand& o = operands_[i];
      if (!o.half) continue;
      narrow(o.type, reinterpret_cast<const float*>(addresses_[i]), pointers[o.value], o.elements);
    }
  }

 private:
  struct Operand {
    ir::ValueId value;
    DataType type;
    bool half;
    std::size_t elements;
    std::size_t offset;  // of its float32 form in the workspace
  };

  // Notes an operand and returns the type that the loops see.
  ir::Type operand(const ir::Graph& graph, ir::ValueId value) {
    ir::Type type = graph.type(value);
    const bool half = ir::is_half(type.data_type);
    const auto elements = static_cast<std::size_t>(type.elements());
    operands_.push_back({value, type.data_type, half, elements, bytes_});
    if (!half) return type;
    bytes_ += (elements * sizeof(float) + 63) / 64 * 64;
    type.data_type = DataType::kFloat32;
    return type;
  }

  ir::Node node_;  // its operands are positions in operands_
  std::size_t workspace_;
  Compute compute_;
  std::vector<ir::Type> inputs_, outputs_;
  std::vector<ir::Layout> input_layouts_, output_layouts_;  // plain
  std::vector<Operand> operands_;                           // inputs, then outputs
  std::vector<std::byte*> addresses_;                       // of the same, during a run
  std::size_t bytes_ = 0;
};

// The float32 next to the number toward 0, its last bit set where something was cut off: what is
// rounded to 16 bits from there is rounded as from the number itself.
float rounded_to_odd(double number) {
  const auto nearest = static_cast<float>(number);
  if (!(std::abs(static_cast<double>(nearest)) <= std::numeric_limits<float>::max()) ||
      static_cast<double>(nearest) == number) {
    return nearest;
  }
  const bool outside = std::abs(static_cast<double>(nearest)) > std::abs(number);
  const float inside = outside ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(inside) | 1u);
}

class WideCast final : public Kernel {
 public:
  WideCast(const ir::Graph& graph, const ir::Node& node)
      : from_(node.inputs[0]),
        to_(node.outputs[0]),
        from_type_(graph.type(from_).data_type),
        to_type_(graph.type(to_).data_type),
        elements_(static_cast<std::size_t>(graph.type(to_).elements())) {}

  void run(Pointers pointers) override {
    for (std::size_t i = 0; i < elements_; ++i) store(pointers[to_], i, load(pointers[from_], i));
  }

 private:
  double load(const std::byte* at, std::size_t i) const {
    if (from_type_ == DataType::kFloat64) return reinterpret_cast<const double*>(at)[i];
    float number = 0;
    if (ir::is_half(from_type_)) {
      widen(from_type_, at + 2 * i, &number, 1);
    } else {
      number = reinterpret_cast<const float*>(at)[i];
    }
    return static_cast<double>(number);
  }

  void store(std::byte* at, std::size_t i, double number) const {
    if (to_type_ == DataType::kFloat64) {
      reinterpret_cast<double*>(at)[i] = number;
    } else if (ir::is_half(to_type_)) {
      const float odd = rounded_to_odd(number);
      narrow(to_type_, &odd, at + 2 * i, 1);
    } else {
      reinterpret_cast<float*>(at)[i] = static_cast<float>(number);
    }
  }

  ir::ValueId from_, to_;
  DataType from_type_, to_type_;
  std::size_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_wide_cast(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<WideCast>(graph, node);
}

std::unique_ptr<Kernel> make_widened(const ir::Graph& graph, const ir::Node& node,
                                     Compute compute) {
  return std::make_unique<WidenedKernel>(graph, node, compute);
}

}  // namespace traingraph::reference
