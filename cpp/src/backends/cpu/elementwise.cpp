// Scalar lists over broadcast operands. In float32 a list of one function runs as one loop, and a
// precompiled list as the loop compiled for it; any other, and all with operands of 16 bits but
// casts and the gradient of ReLU, run through the interpreter.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "backends/cpu/compiled_match.h"
#include "backends/cpu/counted_update.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/keeps_zero.h"
#include "backends/cpu/list_interpreter.h"
#include "backends/cpu/parallel.h"
#include "ir/cast.h"

namespace traingraph::cpu {
namespace {

const ir::ScalarList& list_of(const ir::Node& node) {
  return std::get<ir::ElementwiseAttributes>(node.attributes).list;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const ir::ScalarList& list = list_of(node);
  if (list.registers() > ListInterpreter::kMaxRegisters) {
    return Support::no("a list of more than 256 registers");
  }
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const DataType type = graph.type(id).data_type;
      if (type != DataType::kFloat32 && !ir::is_half(type)) {
        return Support::no(std::string("data type ") + name(type) +
                           " (hand-written loops take float32 and 16 bits)");
      }
    }
  }
  return {};
}

// Every operand of the result's shape takes one layout: that of the parameter which the op writes,
// else of the first of them. Plain where a padded layout would not stay zero outside the tensor.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const Shape& shape = graph.type(node.outputs[0]).shape;
  ir::Layout layout;
  bool found = false;
  auto adopt = [&](ir::ValueId id) {
    if (found || id == ir::kNone || graph.type(id).shape != shape) return;
    layout = graph.value(id).layout;
    found = true;
  };
  for (ir::ValueId id : node.outputs) adopt(graph.value(id).writes);
  for (ir::ValueId id : node.inputs) adopt(id);

  if (ir::has_padding(shape, layout)) {
    std::vector<bool> is_number;
    bool broadcast = false;
    for (ir::ValueId id : node.inputs) {
      const ir::Type& type = graph.type(id);
      is_number.push_back(type.shape != shape && type.elements() == 1);
      broadcast = broadcast || (type.shape != shape && type.elements() != 1);
    }
    if (broadcast || !keeps_zero(list_of(node), is_number)) layout = {};
  }
  LayoutChoice choice;
  for (ir::ValueId id : node.inputs) {
    choice.inputs.push_back(graph.type(id).shape == shape ? layout : ir::Layout{});
  }
  choice.outputs.assign(node.outputs.size(), layout);
  return choice;
}

constexpr std::size_t kMaxOperands = ListInterpreter::kMaxRegisters;

// One function over arrays and numbers.
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(FunctionLoop loop, Immediates immediates, int r, int x, int y, bool step_x,
                 bool step_y, ElementwiseParts parts)
      : loop_(loop),
        immediates_(immediates),
        r_(r),
        x_(x),
        y_(y),
        step_x_(step_x),
        step_y_(step_y),
        parts_(parts) {}

  void run(Pointers pointers) override {
    float* const r = reinterpret_cast<float*>(pointers[r_]);
    const float* const x = reinterpret_cast<const float*>(pointers[x_]);
    const float* const y = reinterpret_cast<const float*>(pointers[y_]);
    parts_.run([&](std::int64_t begin, std::int64_t end) {
      loop_(r + begin, step_x_ ? x + begin : x, step_y_ ? y + begin : y, immediates_, end - begin);
    });
  }

 private:
  FunctionLoop loop_;
  Immediates immediates_;
  int r_, x_, y_;  // values
  bool step_x_, step_y_;
  ElementwiseParts parts_;
};

class CompiledKernel final : public Kernel {
 public:
  CompiledKernel(const ir::Node& node, CompiledMatch match, std::int64_t elements,
                 double nanoseconds)
      : match_(std::move(match)), parts_(elements, 1, nanoseconds) {
    const CompiledLoops& forms = loops().elementwise->compiled[match_.list];
    call_.immediates = match_.immediates.data();
    loop_ = forms.flat;
    if (match_.channels) {
      const ChannelView& view = *match_.channels;
      call_.channels = view.channels;
      call_.space = view.space;
      call_.lanes = view.lanes;
      const bool lanes = view.lanes > 1 || view.space == 1;
      loop_ = lanes ? forms.by_lane : forms.by_channel;
      const std::int64_t unit = lanes ? view.lanes : view.space;
      parts_ = ElementwiseParts(elements / unit, unit, nanoseconds);
    }
    for (int input : match_.inputs) inputs_.push_back(node.inputs[static_cast<std::size_t>(input)]);
    outputs_ = node.outputs;
  }

  void run(Pointers pointers) override {
    const float* in[8];
    float* out[8];
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      in[k] = reinterpret_cast<const float*>(pointers[inputs_[k]]);
    }
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      out[k] = reinterpret_cast<float*>(pointers[outputs_[k]]);
    }
    CompiledCall call = call_;
    call.in = in;
    call.out = out;
    parts_.run([&](std::int64_t begin, std::int64_t end) { loop_(call, begin, end); });
  }

 private:
  CompiledMatch match_;
  CompiledCall call_{};
  void (*loop_)(const CompiledCall&, std::int64_t, std::int64_t);
  std::vector<ir::ValueId> inputs_, outputs_;
  ElementwiseParts parts_;
};

class InterpretedKernel final : public Kernel {
 public:
  InterpretedKernel(const ir::Node& node, std::vector<OperandView> views,
                    std::vector<DataType> types, std::int64_t elements, double nanoseconds)
      : interpreter_(list_of(node), std::move(views), std::move(types), elements),
        inputs_(node.inputs),
        outputs_(node.outputs),
        parts_(elements, 1, nanoseconds) {}

  void run(Pointers pointers) override {
    const std::byte* in[kMaxOperands];
    std::byte* out[kMaxOperands];
    for (std::size_t k = 0; k < inputs_.size(); ++k) in[k] = pointers[inputs_[k]];
    for (std::size_t k = 0; k < outputs_.size(); ++k) out[k] = pointers[outputs_[k]];
    parts_.run(
        [&](std::int64_t begin, std::int64_t end) { interpreter_.run(in, out, begin, end); });
  }

 private:
  ListInterpreter interpreter_;
  std::vector<ir::ValueId> inputs_, outputs_;
  ElementwiseParts parts_;
};

// Between float32 and 16 bits, over equal shapes.
class CastKernel final : public Kernel {
 public:
  CastKernel(const ir::Node& node, DataType from, DataType to, std::int64_t elements,
             double nanoseconds)
      : x_(node.inputs[0]),
        y_(node.outputs[0]),
        from_(from),
        to_(to),
        parts_(elements, 1, nanoseconds) {}

  void run(Pointers pointers) override {
    const std::byte* const x = pointers[x_];
    std::byte* const y = pointers[y_];
    parts_.run([&](std::int64_t begin, std::int64_t end) {
      if (ir::is_half(from_)) {
        widen(from_, x + 2 * begin, reinterpret_cast<float*>(y) + begin, end - begin);
      } else {
        narrow(to_, reinterpret_cast<const float*>(x) + begin, y + 2 * begin, end - begin);
      }
    });
  }

 private:
  ir::ValueId x_, y_;
  DataType from_, to_;
  ElementwiseParts parts_;
};

// Over equal shapes of one type of 16 bits, by its bits.
class ReluGradientOfHalves final : public Kernel {
 public:
  ReluGradientOfHalves(const ir::Node& node, DataType type, std::int64_t elements,
                       double nanoseconds)
      : loop_(loops().half->relu_gradient[type == DataType::kFloat16 ? 0 : 1]),
        dx_(node.outputs[0]),
        parts_(elements, 1, nanoseconds) {
    const ir::Instruction& code = list_of(node).code[0];
    dy_ = node.inputs[static_cast<std::size_t>(code.x)];
    y_ = node.inputs[static_cast<std::size_t>(code.y)];
  }

  static bool takes(const ir::ScalarList& list, const std::vector<OperandView>& views,
                    const std::vector<DataType>& types) {
    const auto dense = [](const OperandView& view) { return view.dense(); };
    const auto same = [&](DataType type) { return type == types[0]; };
    return list.code.size() == 1 && list.code[0].function == ir::Scalar::relu_gradient &&
           list.results == std::vector<int>{list.inputs} && ir::is_half(types[0]) &&
           std::ranges::all_of(views, dense) && std::ranges::all_of(types, same);
  }

  void run(Pointers pointers) override {
    const auto at = [&](ir::ValueId id) { return reinterpret_cast<std::uint16_t*>(pointers[id]); };
    parts_.run([&](std::int64_t begin, std::int64_t end) {
      loop_(at(dy_) + begin, at(y_) + begin, at(dx_) + begin, end - begin);
    });
  }

 private:
  void (*loop_)(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::int64_t);
  ir::ValueId dy_, y_, dx_;
  ElementwiseParts parts_;
};

// Over a power of two, as a loss scale is, quotients are products with all their bits, which take a
// third of the time.
class QuotientsByNumber final : public Kernel {
 public:
  QuotientsByNumber(ir::ValueId r, ir::ValueId x, ir::ValueId y, ElementwiseParts parts)
      : divide_(loop_for(ir::Scalar::divide)),
        multiply_(loop_for(ir::Scalar::multiply)),
        r_(r),
        x_(x),
        y_(y),
        parts_(parts) {}

  void run(Pointers pointers) override {
    float* const r = reinterpret_cast<float*>(pointers[r_]);
    const float* const x = reinterpret_cast<const float*>(pointers[x_]);
    const float divisor = *reinterpret_cast<const float*>(pointers[y_]);
    const bool is_power = is_power_of_two(divisor);
    const float number = is_power ? 1 / divisor : divisor;
    const FunctionLoop loop = is_power ? multiply_ : divide_;
    parts_.run([&](std::int64_t begin, std::int64_t end) {
      loop(r + begin, x + begin, &number, {}, end - begin);
    });
  }

 private:
  static FunctionLoop loop_for(ir::Scalar function) {
    return loops().elementwise->functions[static_cast<std::size_t>(function)].number_y;
  }
  // Whose reciprocal is a normal number, too.
  static bool is_power_of_two(float x) {
    int exponent = 0;
    return std::fabs(std::frexp(x, &exponent)) == 0.5f && std::abs(exponent) < 120;
  }

  FunctionLoop divide_, multiply_;
  ir::ValueId r_, x_, y_;
  ElementwiseParts parts_;
};

// What one thread needs: the larger of moving the operands and computing.
double estimated_nanoseconds(const ir::ScalarList& list, const std::vector<OperandView>& views,
                             std::int64_t elements) {
  double arrays = static_cast<double>(list.results.size());
  for (const OperandView& view : views) arrays += view.dense() ? 1 : 0;
  double each = 0;
  for (const ir::Instruction& code : list.code) {
    const bool heavy = code.function >= ir::Scalar::sqrt && code.function != ir::Scalar::sign &&
                       code.function != ir::Scalar::clip;
    each += heavy ? 0.2 : 0.03;
  }
  const double count = static_cast<double>(elements);
  return std::max(nanoseconds_to_move(4 * arrays * count), each * count);
}

// Null unless the list is one function whose operands need no expanding.
std::unique_ptr<Kernel> make_function(const ir::Node& node, const std::vector<OperandView>& views,
                                      std::int64_t elements, double nanoseconds) {
  const ir::ScalarList& list = list_of(node);
  if (list.code.size() != 1 || list.results != std::vector<int>{list.inputs}) return nullptr;
  const ir::Instruction& code = list.code[0];
  const int arity = ir::arity(code.function);
  auto dense = [&](int operand) { return views[static_cast<std::size_t>(operand)].dense(); };
  auto number = [&](int operand) { return views[static_cast<std::size_t>(operand)].number(); };
  auto value = [&](int operand) {
    return operand < 0 ? node.outputs[0] : node.inputs[static_cast<std::size_t>(operand)];
  };
  const FunctionLoops& forms =
      loops().elementwise->functions[static_cast<std::size_t>(code.function)];
  FunctionLoop loop = forms.arrays;
  bool step_x = true, step_y = true;
  if (arity >= 1 && !dense(code.x)) {
    if (arity == 1 || !number(code.x) || !dense(code.y)) return nullptr;
    loop = forms.number_x;
    step_x = false;
  } else if (arity == 2 && !dense(code.y)) {
    if (!number(code.y)) return nullptr;
    loop = forms.number_y;
    step_y = false;
  }
  if (code.function == ir::Scalar::divide && step_x && !step_y) {
    return std::make_unique<QuotientsByNumber>(node.outputs[0], value(code.x), value(code.y),
                                               ElementwiseParts(elements, 1, nanoseconds));
  }
  return std::make_unique<FunctionKernel>(
      loop, Immediates{static_cast<float>(code.p), static_cast<float>(code.q)}, node.outputs[0],
      value(arity >= 1 ? code.x : -1), value(arity == 2 ? code.y : -1), step_x, step_y,
      ElementwiseParts(elements, 1, nanoseconds));
}

std::unique_ptr<Kernel> make_list(const ir::Graph& graph, const ir::Node& node) {
  const ir::ScalarList& list = list_of(node);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const ir::Layout& layout = graph.value(node.outputs[0]).layout;
  const std::int64_t elements = ir::padded_elements(shape, layout);
  std::vector<OperandView> views;
  std::vector<DataType> types;
  for (ir::ValueId id : node.inputs) {
    views.push_back(view_of(graph.type(id).shape, shape, layout));
    types.push_back(graph.type(id).data_type);
  }
  for (ir::ValueId id : node.outputs) types.push_back(graph.type(id).data_type);
  const double nanoseconds = estimated_nanoseconds(list, views, elements);
  if (std::none_of(types.begin(), types.end(), ir::is_half)) {
    if (auto kernel = make_function(node, views, elements, nanoseconds)) return kernel;
    if (auto match = find_compiled(list, views)) {
      return std::make_unique<CompiledKernel>(node, std::move(*match), elements, nanoseconds);
    }
  }
  if (ir::is_cast(std::get<ir::ElementwiseAttributes>(node.attributes)) && views[0].dense() &&
      ir::is_half(types[0]) != ir::is_half(types[1])) {
    return std::make_unique<CastKernel>(node, types[0], types[1], elements, nanoseconds);
  }
  if (ReluGradientOfHalves::takes(list, views, types)) {
    return std::make_unique<ReluGradientOfHalves>(node, types[0], elements, nanoseconds);
  }
  return std::make_unique<InterpretedKernel>(node, std::move(views), std::move(types), elements,
                                             nanoseconds);
}

// Steps that do not count are few: their update may take its time.
class CountedUpdateKernel final : public Kernel {
 public:
  CountedUpdateKernel(const ir::Graph& graph, const ir::Node& node, const CountedUpdate& update)
      : whole_(make_list(graph, node)),
        counted_(make_list(graph, update.node)),
        counts_(update.counts) {}

  void run(Pointers pointers) override {
    const bool counts = *reinterpret_cast<const float*>(pointers[counts_]) == 1;
    (counts ? counted_ : whole_)->run(pointers);
  }

 private:
  std::unique_ptr<Kernel> whole_, counted_;
  ir::ValueId counts_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  const auto update = counted_update(node);
  if (!update || graph.type(update->counts).elements() != 1 ||
      graph.type(update->counts).data_type != DataType::kFloat32) {
    return make_list(graph, node);
  }
  return std::make_unique<CountedUpdateKernel>(graph, node, *update);
}

}  // namespace

const std::vector<KernelEntry>& elementwise_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::elementwise, supports, make, layouts, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
