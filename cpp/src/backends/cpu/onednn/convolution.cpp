// Convolution and its two gradients by oneDNN. x (N, C, H, W), weights (O, C / groups, kh, kw),
// y (N, O, P, Q); each result is overwritten.
//
// Layouts. Where oneDNN chooses freely, the forward pass takes activations with channels in blocks
// of the vector's width (nChw16c with AVX-512) and a plain source of 1 to 3 channels. Its gradients
// then run as fast or faster in the same layouts, also with stride 2, where asked alone they would
// prefer channels last; so they follow the forward pass and one layout runs from the first
// convolution to the last. What lies between (batch norm, activation, addition, pooling and their
// gradients) should keep its input's layout and give its result the same one. The weights'
// gradient comes out in the layout that the forward pass wants for the weights, which makes it the
// master's; only gradient_data reads another one (blocks of O and C exchanged) and needs a reorder
// of the weights after each update, less than 1 % of its own time.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include <traingraph/mutex.h>

#include "backends/cpu/onednn/convolution_cut.h"
#include "backends/cpu/onednn/kernel.h"
#include "backends/cpu/winograd_problem.h"

namespace traingraph::cpu {
namespace {

using dnnl::memory;
using ir::ConvolutionAttributes;
using ir::Layout;
using ir::Op;

// One application, whichever of the three ops it is.
struct Problem {
  Op op;
  Shape x, weights, y;
  const ConvolutionAttributes& attributes;
  bool halves = false;  // operands are bfloat16, but for the gradient of weights

  DataType type() const { return halves ? DataType::kBFloat16 : DataType::kFloat32; }
  DataType weights_type() const {
    return op == Op::convolution_gradient_weights ? DataType::kFloat32 : type();
  }

  double operations() const {
    const std::int64_t per_result = element_count(weights) / weights[0];
    return 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(per_result);
  }
};

// The same three operands for every op: what they are called there.
struct Operands {
  ir::ValueId x, weights, y;
};

Operands operands_of(const ir::Node& node) {
  switch (node.op) {
    case Op::convolution_gradient_data:
      return {node.outputs[0], node.inputs[1], node.inputs[0]};
    case Op::convolution_gradient_weights:
      return {node.inputs[1], node.outputs[0], node.inputs[0]};
    default:
      return {node.inputs[0], node.inputs[1], node.outputs[0]};
  }
}

Problem problem_of(const ir::Graph& graph, const ir::Node& node) {
  const Operands o = operands_of(node);
  return {node.op,
          graph.type(o.x).shape,
          graph.type(o.weights).shape,
          graph.type(o.y).shape,
          std::get<ConvolutionAttributes>(node.attributes),
          graph.type(o.y).data_type == DataType::kBFloat16};
}

// --- weights with groups -----------------------------------------------------------------------
// oneDNN has an axis of groups: (G, O/G, C/G, kh, kw). In memory that is the same as our four axes
// as long as blocks do not cross from one group into the next.

Shape grouped_shape(const Problem& p) {
  const std::int64_t groups = p.attributes.groups;
  if (groups == 1) return p.weights;
  return {groups, p.weights[0] / groups, p.weights[1], p.weights[2], p.weights[3]};
}

// A block over our axis 0 is one over O/G, or over G where each group has one result channel.
std::optional<memory::desc> describe_weights(const Problem& p, const Layout& layout) {
  if (p.attributes.groups == 1) return describe(p.weights, layout, p.weights_type());
  const std::int64_t per_group = p.weights[0] / p.attributes.groups;
  Layout grouped;
  for (int axis : layout.order) {
    if (axis == 0) grouped.order.push_back(0);
    grouped.order.push_back(axis + 1);
  }
  std::int64_t blocked = 1;
  for (const Layout::Block& block : layout.blocks) {
    const bool channels = block.axis == 0;
    if (channels) blocked *= block.size;
    grouped.blocks.push_back({channels && per_group == 1 ? 0 : block.axis + 1, block.size});
  }
  if (per_group > 1 && per_group % blocked != 0) return {};
  return describe(grouped_shape(p), grouped, p.weights_type());
}

std::optional<Layout> weights_layout(const Problem& p, const memory::desc& desc) {
  std::optional<Layout> grouped = layout_of(desc);
  if (!grouped || p.attributes.groups == 1) return grouped;
  Layout layout;
  for (int axis : grouped->order) {
    if (axis > 0) layout.order.push_back(axis - 1);
  }
  for (const Layout::Block& block : grouped->blocks) {
    layout.blocks.push_back({std::max(block.axis - 1, 0), block.size});
  }
  layout = ir::normalized(layout);
  // The way back tells whether groups and channels were neighbours.
  const auto back = describe_weights(p, layout);
  if (!back || *back != desc) return {};
  return layout;
}

// --- primitives --------------------------------------------------------------------------------

struct Descriptions {
  memory::desc x, weights, y;
};

Descriptions any_layout(const Problem& p) {
  return {describe_any(p.x, p.type()), describe_any(grouped_shape(p), p.weights_type()),
          describe_any(p.y, p.type())};
}

// `bias` may be null. Raises dnnl::error.
dnnl::primitive_desc create(const Problem& p, const Descriptions& d, const memory::desc* bias,
                            const dnnl::primitive_attr& attributes) {
  const ir::Window& w = p.attributes.window;
  const memory::dims stride(w.stride, w.stride + 2);
  const memory::dims dilation = {w.dilation[0] - 1, w.dilation[1] - 1};  // oneDNN counts gaps
  const memory::dims before(w.padding_before, w.padding_before + 2);
  const memory::dims after(w.padding_after, w.padding_after + 2);
  const auto direct = dnnl::algorithm::convolution_direct;
  auto forward = [&](const Descriptions& f, const memory::desc& b, const dnnl::primitive_attr& a) {
    return dnnl::convolution_forward::primitive_desc(
        onednn_engine(), dnnl::prop_kind::forward_training, direct, f.x, f.weights, b, f.y, stride,
        dilation, before, after, a);
  };
  if (p.op == Op::convolution) {
    return forward(d, bias != nullptr ? *bias : memory::desc(), attributes);
  }
  Problem before_it = p;
  before_it.op = Op::convolution;
  const auto hint = forward(any_layout(before_it), memory::desc(), onednn_attributes());
  if (p.op == Op::convolution_gradient_data) {
    return dnnl::convolution_backward_data::primitive_desc(onednn_engine(), direct, d.x, d.weights,
                                                           d.y, stride, dilation, before, after,
                                                           hint, attributes);
  }
  return dnnl::convolution_backward_weights::primitive_desc(onednn_engine(), direct, d.x, d.weights,
                                                            d.y, stride, dilation, before, after,
                                                            hint, attributes);
}

// What the operands are called at execution.
struct Names {
  int x, weights, y;
};

Names names_of(Op op) {
  if (op == Op::convolution) return {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  if (op == Op::convolution_gradient_data) {
    return {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
  }
  return {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
}

Descriptions descriptions_of(Op op, const dnnl::primitive_desc& primitive) {
  auto md = [&](int name) { return primitive.query_md(dnnl::query::exec_arg_md, name); };
  const Names names = names_of(op);
  return {md(names.x), md(names.weights), md(names.y)};
}

// --- layouts -----------------------------------------------------------------------------------

struct Layouts {
  Layout x, weights, y;
  bool operator==(const Layouts&) const = default;
};

// Nothing where the primitive's choice cannot be said as layouts.
std::optional<Layouts> layouts_of(const Problem& p, const dnnl::primitive_desc& primitive) {
  const Descriptions d = descriptions_of(p.op, primitive);
  const auto x = layout_of(d.x), weights = weights_layout(p, d.weights), y = layout_of(d.y);
  if (!x || !weights || !y) return {};
  return Layouts{*x, *weights, *y};
}

// The primitive over these layouts. Where an extent is 1 several names mean the same memory, and
// oneDNN knows its fast kernels by one of them only: then it names them itself.
dnnl::primitive_desc create_over(const Problem& p, const Layouts& layouts, const memory::desc* bias,
                                 const dnnl::primitive_attr& attributes) {
  const Descriptions d{*describe(p.x, layouts.x, p.type()), *describe_weights(p, layouts.weights),
                       *describe(p.y, layouts.y, p.type())};
  const Descriptions any = any_layout(p);
  dnnl::primitive_desc primitive = create(p, d, bias, attributes);
  for (const Descriptions& open : {Descriptions{d.x, any.weights, d.y}, any}) {
    if (!is_plain_loop(primitive)) return primitive;
    const dnnl::primitive_desc other = create(p, open, bias, attributes);
    if (!is_plain_loop(other) && layouts_of(p, other) == layouts) return other;
  }
  return primitive;
}

// A gradient takes the forward's layouts, or at least its activations, where oneDNN has a fast
// kernel for them. Each candidate is judged by the primitive that its layouts give in the end.
Layouts choose(const Problem& p) {
  const ThreadScope scope(1);
  const auto attributes = onednn_attributes();
  std::vector<Descriptions> candidates;
  const Descriptions any = any_layout(p);
  if (p.op != Op::convolution) {
    const Problem forward{Op::convolution, p.x, p.weights, p.y, p.attributes, p.halves};
    const Layouts f = choose(forward);
    const memory::desc x = *describe(p.x, f.x, p.type()), y = *describe(p.y, f.y, p.type());
    candidates.push_back({x, *describe_weights(p, f.weights), y});
    candidates.push_back({x, any.weights, y});
  }
  candidates.push_back(any);
  const memory::desc x = *describe(p.x, {}, p.type()), y = *describe(p.y, {}, p.type());
  candidates.push_back({x, any.weights, y});
  candidates.push_back({x, *describe_weights(p, {}), y});
  std::optional<Layouts> second;
  for (const Descriptions& candidate : candidates) {
    const auto layouts = layouts_of(p, create(p, candidate, nullptr, attributes));
    if (!layouts) continue;
    const dnnl::primitive_desc primitive = create_over(p, *layouts, nullptr, attributes);
    if (is_specialised(primitive)) return *layouts;
    if (!second && !is_plain_loop(primitive)) second = layouts;
  }
  return second.value_or(Layouts{});
}

std::string key_of(const Problem& p) {
  std::string key = std::to_string(static_cast<int>(p.op));
  auto append = [&](const std::int64_t* numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) key += " " + std::to_string(numbers[i]);
  };
  const ir::Window& w = p.attributes.window;
  for (const Shape* shape : {&p.x, &p.weights, &p.y}) append(shape->data(), shape->size());
  for (const std::int64_t* pair :
       {w.kernel, w.stride, w.dilation, w.padding_before, w.padding_after}) {
    append(pair, 2);
  }
  append(&p.attributes.groups, 1);
  return key + (p.halves ? " bfloat16" : "");
}

Layouts choose_cached(const Problem& p) {
  static Mutex mutex;
  static auto& cache = *new std::unordered_map<std::string, Layouts>;
  const std::string key = key_of(p);
  {
    const std::lock_guard lock(mutex);
    const auto found = cache.find(key);
    if (found != cache.end()) return found->second;
  }
  Layouts chosen = guarded("convolution", [&] { return choose(p); });
  constexpr std::size_t kMostEntries = 4096;
  const std::lock_guard lock(mutex);
  if (cache.size() >= kMostEntries) cache.clear();
  cache.emplace(key, chosen);
  return chosen;
}

LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice = plain_layouts(node);
  const Layouts chosen = choose_cached(problem_of(graph, node));
  const Operands o = operands_of(node);
  auto layout = [&](ir::ValueId id) {
    return id == o.x ? chosen.x : id == o.weights ? chosen.weights : chosen.y;
  };
  // Inputs of an epilogue stay plain.
  for (std::size_t i = 0; i < 2; ++i) choice.inputs[i] = layout(node.inputs[i]);
  choice.outputs[0] = layout(node.outputs[0]);
  return choice;
}

// --- kernels -----------------------------------------------------------------------------------

// One number per result channel: (1, O, 1, 1), float32 or of the source's type.
bool is_bias(const ir::Graph& graph, ir::ValueId id, std::int64_t channels, DataType source) {
  const ir::Value& value = graph.value(id);
  return value.type.shape == Shape{1, channels, 1, 1} && value.layout.blocks.empty() &&
         (value.type.data_type == DataType::kFloat32 || value.type.data_type == source);
}

bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const auto epilogue = epilogue_of(list);
  if (!epilogue || extra.size() != (epilogue->bias ? 1u : 0u)) return false;
  const std::int64_t channels = graph.type(producer.inputs[1]).shape[0];
  const DataType source = graph.type(producer.inputs[0]).data_type;
  return !epilogue->bias || is_bias(graph, extra[0], channels, source);
}

// All of bfloat16 but the gradient of weights, where oneDNN has a kernel made for the problem.
Support supports_halves(const ir::Graph& graph, const ir::Node& node, const Problem& p) {
  if (Support s = supports_bfloat16(graph, node); !s.yes) return s;
  const Operands o = operands_of(node);
  const bool same =
      graph.type(o.x).data_type == p.type() && graph.type(o.weights).data_type == p.weights_type();
  if (!same) return Support::no("oneDNN: a mix of float32 and bfloat16");
  if (winograd_beats_bfloat16(graph, node)) return Support::no("oneDNN: slower than Winograd's");
  const bool specialised = guarded("convolution", [&] {
    const ThreadScope scope(1);
    const Layouts chosen = choose_cached(p);
    return is_specialised(create_over(p, chosen, nullptr, onednn_attributes()));
  });
  return specialised ? Support{} : Support::no("oneDNN: no kernel for it in bfloat16");
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Problem p = problem_of(graph, node);
  const Operands o = operands_of(node);
  if (Support s = p.halves ? supports_halves(graph, node, p) : supports_operands(graph, node);
      !s.yes) {
    return s;
  }
  if (!describe(p.x, graph.value(o.x).layout) ||
      !describe_weights(p, graph.value(o.weights).layout) ||
      !describe(p.y, graph.value(o.y).layout)) {
    return Support::no("oneDNN: a layout that it does not have");
  }
  const ir::ScalarList& list = p.attributes.epilogue;
  const std::vector<ir::ValueId> extra(node.inputs.begin() + 2, node.inputs.end());
  if (!list.empty() && (node.op != Op::convolution || !fuses(graph, node, list, extra))) {
    return Support::no("oneDNN: an epilogue that it does not compute");
  }
  return {};
}

// For one thread.
std::unique_ptr<Kernel> make_primitive(const ir::Graph& graph, const ir::Node& node) {
  const Problem p = problem_of(graph, node);
  const Operands o = operands_of(node);
  const Epilogue epilogue = *epilogue_of(p.attributes.epilogue);
  return guarded(ir::name(node.op), [&] {
    const Layouts layouts{graph.value(o.x).layout, graph.value(o.weights).layout,
                          graph.value(o.y).layout};
    const DataType bias_type =
        epilogue.bias ? graph.type(node.inputs[2]).data_type : DataType::kFloat32;
    const memory::desc bias = describe_strided({p.weights[0]}, {1}, bias_type);
    const ThreadScope scope(1);
    auto primitive_with = [&](bool parametric) {
      dnnl::post_ops operations;
      epilogue.append_function(operations, parametric);
      dnnl::primitive_attr attributes = onednn_attributes();
      if (operations.len() > 0) attributes.set_post_ops(operations);
      return create_over(p, layouts, epilogue.bias ? &bias : nullptr, attributes);
    };
    bool parametric = epilogue.relu;
    dnnl::primitive_desc primitive = primitive_with(parametric);
    if (parametric && is_plain_loop(primitive)) {
      parametric = false;
      primitive = primitive_with(parametric);
    }
    const Names names = names_of(p.op);
    const Descriptions d = descriptions_of(p.op, primitive);
    std::vector<Argument> arguments = {
        {names.x, o.x, d.x}, {names.weights, o.weights, d.weights}, {names.y, o.y, d.y}};
    if (epilogue.bias) arguments.push_back({DNNL_ARG_BIAS, node.inputs[2], bias});
    if (parametric) arguments.push_back(relu_slope(p.y.size()));
    return make_primitive_kernel(graph, node, ir::name(node.op), dnnl::primitive(primitive.get()),
                                 primitive, arguments, 1);
  });
}

std::unique_ptr<Kernel> make_part_of_samples(const ir::Graph& graph, const ir::Node& node) {
  if (has_many_samples(graph, node)) return make_in_parts(graph, node, make_primitive);
  return make_primitive(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  const double operations = problem_of(graph, node).operations();
  const int threads = threads_for(nanoseconds_to_compute(operations));
  return make_parts(graph, node, cut_of(graph, node, operations), make_part_of_samples, threads);
}

}  // namespace

const std::vector<KernelEntry>& convolution_entries() {
  static const std::vector<KernelEntry> entries = {
      {Op::convolution, supports, make, layouts, fuses},
      // No epilogue, also where it is a layer's forward pass: oneDNN's deconvolution has one for
      // channels innermost alone, and elsewhere goes over the result by plain loops.
      {Op::convolution_gradient_data, supports, make, layouts, nullptr},
      {Op::convolution_gradient_weights, supports, make, layouts, nullptr},
  };
  return entries;
}

}  // namespace traingraph::cpu
