// Matrix products by oneDNN: y = alpha op(a) op(b) on the last two axes, leading axes broadcast.
//
// Operands are plain. A transposed operand is a plain one with exchanged strides, and blocked
// weights gain 2 to 3 % over that while their gradient and their update would have to follow, so
// `layouts` asks for none. Inner-product primitives are as fast in one pass and slower in another.
#include "backends/cpu/onednn/kernel.h"

namespace traingraph::cpu {
namespace {

using dnnl::memory;
using ir::MatmulAttributes;

// a (…, M, K), b (…, K, N) → y (…, M, N) as oneDNN sees them: one rank, strides for what is
// transposed.
struct Problem {
  memory::desc a, b, y;
  double operations;
};

// The last two axes behind `lead`, exchanged when the tensor holds the transposed matrix.
memory::desc matrices(Shape lead, std::int64_t rows, std::int64_t columns, bool transposed) {
  const std::size_t rank = lead.size() + 2;
  Shape stored = lead;
  stored.insert(stored.end(), {transposed ? columns : rows, transposed ? rows : columns});
  Shape strides = ir::dense_strides(stored);
  if (transposed) std::swap(strides[rank - 2], strides[rank - 1]);
  lead.insert(lead.end(), {rows, columns});
  return describe_strided(lead, strides);
}

// Leading axes, filled up with 1 in front.
Shape lead_of(const Shape& shape, std::size_t rank) {
  Shape lead(rank - shape.size(), 1);
  lead.insert(lead.end(), shape.begin(), shape.end() - 2);
  return lead;
}

Problem problem_of(const Shape& a, const Shape& b, const Shape& y, const MatmulAttributes& m) {
  const std::size_t rank = y.size();
  std::int64_t rows = y[rank - 2];
  const std::int64_t columns = y[rank - 1];
  const std::int64_t inner = m.transpose_a ? a[a.size() - 2] : a[a.size() - 1];
  Shape lead_a = lead_of(a, rank), lead_b = lead_of(b, rank), lead_y = lead_of(y, rank);
  const double operations = 2.0 * static_cast<double>(element_count(y) * inner);
  if (!m.transpose_a && element_count(lead_b) == 1 && lead_a == lead_y) {
    // One matrix b for all: leading axes of a are more rows.
    rows *= element_count(lead_y);
    lead_a = lead_b = lead_y = {};
  } else if (lead_a == lead_b) {
    const std::int64_t count = element_count(lead_y);
    lead_a = lead_b = lead_y = count == 1 ? Shape{} : Shape{count};
  }
  return {matrices(lead_a, rows, inner, m.transpose_a),
          matrices(lead_b, inner, columns, m.transpose_b), matrices(lead_y, rows, columns, false),
          operations};
}

Problem problem_of(const ir::Graph& graph, const ir::Node& node) {
  return problem_of(graph.type(node.inputs[0]).shape, graph.type(node.inputs[1]).shape,
                    graph.type(node.outputs[0]).shape, std::get<MatmulAttributes>(node.attributes));
}

// One number per column: (N), (1, N), …
bool is_bias(const ir::Value& value, std::int64_t columns) {
  const Shape& shape = value.type.shape;
  return !shape.empty() && shape.back() == columns && element_count(shape) == columns &&
         value.layout.blocks.empty() && value.type.data_type == DataType::kFloat32;
}

bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  // oneDNN adds the bias before it scales.
  if (std::get<MatmulAttributes>(producer.attributes).alpha != 1) return false;
  const auto epilogue = epilogue_of(list);
  if (!epilogue || extra.size() != (epilogue->bias ? 1u : 0u)) return false;
  return !epilogue->bias ||
         is_bias(graph.value(extra[0]), graph.type(producer.outputs[0]).shape.back());
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = supports_operands(graph, node); !s.yes) return s;
  for (ir::ValueId id : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
    if (graph.type(id).rank() > DNNL_MAX_NDIMS) return Support::no("oneDNN: too many axes");
    if (!graph.value(id).layout.plain()) return Support::no("oneDNN: matrices not plain");
  }
  const ir::ScalarList& list = std::get<MatmulAttributes>(node.attributes).epilogue;
  const std::vector<ir::ValueId> extra(node.inputs.begin() + 2, node.inputs.end());
  if (!list.empty() && !fuses(graph, node, list, extra)) {
    return Support::no("oneDNN: an epilogue that it does not compute");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<MatmulAttributes>(node.attributes);
  const Epilogue epilogue = *epilogue_of(attributes.epilogue);
  return guarded("matmul", [&] {
    const Problem p = problem_of(graph, node);
    const memory::dims shape = p.y.get_dims();
    Shape bias_shape(shape.size(), 1);
    bias_shape.back() = shape.back();
    const memory::desc bias = epilogue.bias ? *describe(bias_shape, {}) : memory::desc();
    const int threads = library_threads(nanoseconds_to_compute(p.operations));
    const ThreadScope scope(threads);
    const auto primitive_with = [&](bool parametric) {
      dnnl::post_ops operations;
      if (attributes.alpha != 1) {
        const auto alpha = static_cast<float>(attributes.alpha);
        operations.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
      }
      epilogue.append_function(operations, parametric);
      dnnl::primitive_attr attr = onednn_attributes();
      if (operations.len() > 0) attr.set_post_ops(operations);
      return dnnl::matmul::primitive_desc(onednn_engine(), p.a, p.b, bias, p.y, attr);
    };
    bool parametric = epilogue.relu;
    auto description = primitive_with(parametric);
    if (parametric && is_plain_loop(description)) {
      parametric = false;
      description = primitive_with(parametric);
    }
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, node.inputs[0], p.a},
                                       {DNNL_ARG_WEIGHTS, node.inputs[1], p.b},
                                       {DNNL_ARG_DST, node.outputs[0], p.y}};
    if (epilogue.bias) arguments.push_back({DNNL_ARG_BIAS, node.inputs[2], bias});
    if (parametric) arguments.push_back(relu_slope(shape.size()));
    return make_primitive_kernel(graph, node, "matmul", dnnl::matmul(description), description,
                                 arguments, threads);
  });
}

}  // namespace

const std::vector<KernelEntry>& matmul_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::matmul, supports, make, nullptr, fuses}};
  return entries;
}

}  // namespace traingraph::cpu
