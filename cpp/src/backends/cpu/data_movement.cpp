// Concatenate, slice, pad and transpose of elements of any type as strided copies, and constants
// that share their memory with other values.
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/element_size.h"
#include "backends/cpu/strided_copy.h"
#include "runtime/memory/fill.h"

namespace traingraph::cpu {
namespace {

// A dense tensor as `outer` runs of `run` elements: everything from one axis on.
struct Runs {
  std::int64_t outer = 1, run = 1;

  Runs(const Shape& shape, int axis) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      (static_cast<int>(k) < axis ? outer : run) *= shape[k];
    }
  }
};

// Copies into one result that do not overlap.
class Moves final : public Kernel {
 public:
  Moves(const ir::Graph& graph, const ir::Node& node)
      : result_(node.outputs[0]), bytes_(element_bytes(graph.type(result_).data_type)) {}

  // From element `from` of the source to element `to` of the result; without a source zeros.
  void add(ir::ValueId source, std::int64_t from, std::int64_t to,
           std::vector<StridedCopy::Axis> axes) {
    const auto at = [&](std::int64_t element) {
      return static_cast<std::size_t>(element) * bytes_;
    };
    moves_.push_back({source, at(from), at(to), StridedCopy(std::move(axes), bytes_)});
  }

  void run(Pointers pointers) override {
    for (const Move& move : moves_) {
      move.copy.run(move.source == ir::kNone ? nullptr : pointers[move.source] + move.from,
                    pointers[result_] + move.to);
    }
  }

 private:
  struct Move {
    ir::ValueId source;
    std::size_t from, to;  // bytes
    StridedCopy copy;
  };
  ir::ValueId result_;
  std::size_t bytes_;
  std::vector<Move> moves_;
};

// x_i (…, D_i, …) → y (…, extent, …), each from its start on, zeros around them.
std::unique_ptr<Kernel> make_joined(const ir::Graph& graph, const ir::Node& node, int axis,
                                    const std::vector<std::int64_t>& starts) {
  auto kernel = std::make_unique<Moves>(graph, node);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const Runs whole(shape, axis);
  const std::int64_t step = whole.run / shape[static_cast<std::size_t>(axis)];
  std::int64_t end = 0;
  const auto add_zeros_to = [&](std::int64_t begin) {
    if (begin == end) return;
    const StridedCopy::Axis outer{whole.outer, whole.run, whole.run};
    kernel->add(ir::kNone, 0, end, {outer, {begin - end, 1, 1}});
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::int64_t run = Runs(graph.type(node.inputs[i]).shape, axis).run;
    const std::int64_t start = starts.empty() ? end : starts[i] * step;
    add_zeros_to(start);
    kernel->add(node.inputs[i], 0, start, {{whole.outer, run, whole.run}, {run, 1, 1}});
    end = start + run;
  }
  add_zeros_to(whole.run);
  return kernel;
}

std::unique_ptr<Kernel> make_concatenate(const ir::Graph& graph, const ir::Node& node) {
  return make_joined(graph, node, std::get<ir::AxisAttributes>(node.attributes).axis, {});
}

std::unique_ptr<Kernel> make_pad(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::PadAttributes>(node.attributes);
  return make_joined(graph, node, attributes.axis, attributes.starts);
}

// x (…, D, …) → y (…, extent, …) from element `start` on.
std::unique_ptr<Kernel> make_slice(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::SliceAttributes>(node.attributes);
  const Runs from(graph.type(node.inputs[0]).shape, attributes.axis);
  const Runs to(graph.type(node.outputs[0]).shape, attributes.axis);
  auto kernel = std::make_unique<Moves>(graph, node);
  kernel->add(node.inputs[0], to.run / attributes.extent * attributes.start, 0,
              {{to.outer, from.run, to.run}, {to.run, 1, 1}});
  return kernel;
}

// Axis k of y is axis axes[k] of x.
std::unique_ptr<Kernel> make_transpose(const ir::Graph& graph, const ir::Node& node) {
  const auto& order = std::get<ir::TransposeAttributes>(node.attributes).axes;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const Shape from = ir::dense_strides(graph.type(node.inputs[0]).shape);
  const Shape to = ir::dense_strides(shape);
  std::vector<StridedCopy::Axis> axes;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    axes.push_back({shape[k], from[static_cast<std::size_t>(order[k])], to[k]});
  }
  auto kernel = std::make_unique<Moves>(graph, node);
  kernel->add(node.inputs[0], 0, 0, std::move(axes));
  return kernel;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (graph.type(node.outputs[0]).rank() <= 8) return {};
  return Support::no("more than 8 axes");
}

// One number for all elements, or one for each. Those apart from other values are written when the
// program is made (passes/constants.cpp).
class Constant final : public Kernel {
 public:
  Constant(const ir::Graph& graph, const ir::Node& node)
      : result_(node.outputs[0]),
        total_(ir::storage_bytes(graph.type(result_), {})),
        type_(graph.type(result_).data_type) {
    const auto& numbers = std::get<ir::ConstantAttributes>(node.attributes).numbers;
    one_ = numbers[0];
    if (numbers.size() == 1) return;
    bytes_.resize(total_);
    const std::size_t step = total_ / numbers.size();
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      fill(bytes_.data() + k * step, step, type_, numbers[k]);
    }
  }

  void run(Pointers pointers) override {
    if (bytes_.empty()) return fill(pointers[result_], total_, type_, one_);
    std::memcpy(pointers[result_], bytes_.data(), total_);
  }

 private:
  ir::ValueId result_;
  std::size_t total_;
  DataType type_;
  double one_ = 0;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<Kernel> make_constant(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Constant>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& data_movement_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::concatenate, supports, make_concatenate},
      {ir::Op::slice, supports, make_slice},
      {ir::Op::pad, supports, make_pad},
      {ir::Op::transpose, supports, make_transpose},
      {ir::Op::constant, supports_any_type, make_constant}};
  return entries;
}

}  // namespace traingraph::cpu
