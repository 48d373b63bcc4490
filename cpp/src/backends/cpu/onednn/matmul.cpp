// Matrix products by oneDNN: y = alpha op(a) op(b) on the last two axes, leading axes broadcast.
//
// Operands are plain. A transposed operand is a plain one with exchanged strides, and blocked
// weights gain 2 to 3 % over that while their gradient and their update would have to follow, so
// `layouts` asks for none. Inner-product primitives are as fast in one pass and slower in another.
//
// oneDNN's sums depend on the number of its threads. So each primitive runs on one, over a part of
// the result that is cut by shape.
#include <algorithm>
#include <array>

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/onednn/kernel.h"
#include "ir/extents.h"

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
memory::desc matrices(Shape lead, std::int64_t rows, std::int64_t columns, bool transposed,
                      DataType type) {
  const std::size_t rank = lead.size() + 2;
  Shape stored = lead;
  stored.insert(stored.end(), {transposed ? columns : rows, transposed ? rows : columns});
  Shape strides = ir::dense_strides(stored);
  if (transposed) std::swap(strides[rank - 2], strides[rank - 1]);
  lead.insert(lead.end(), {rows, columns});
  return describe_strided(lead, strides, type);
}

// Leading axes, filled up with 1 in front.
Shape lead_of(const Shape& shape, std::size_t rank) {
  Shape lead(rank - shape.size(), 1);
  lead.insert(lead.end(), shape.begin(), shape.end() - 2);
  return lead;
}

Problem problem_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& m = std::get<MatmulAttributes>(node.attributes);
  const ir::Type& type_a = graph.type(node.inputs[0]);
  const ir::Type& type_b = graph.type(node.inputs[1]);
  const ir::Type& type_y = graph.type(node.outputs[0]);
  const Shape &a = type_a.shape, &b = type_b.shape, &y = type_y.shape;
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
  return {matrices(lead_a, rows, inner, m.transpose_a, type_a.data_type),
          matrices(lead_b, inner, columns, m.transpose_b, type_b.data_type),
          matrices(lead_y, rows, columns, false, type_y.data_type), operations};
}

bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  // oneDNN adds the bias before it scales.
  if (std::get<MatmulAttributes>(producer.attributes).alpha != 1) return false;
  const auto epilogue = epilogue_of(list);
  if (!epilogue || extra.size() != (epilogue->bias ? 1u : 0u)) return false;
  const ir::Type& result = graph.type(producer.outputs[0]);
  return !epilogue->bias || is_bias_of_columns(graph.value(extra[0]), result.shape.back(),
                                               graph.type(producer.inputs[0]).data_type);
}

// Few multiplications take less time in float32 loops, and long sums need more than oneDNN's.
constexpr double kFewestMultiplications = 1e4;
constexpr std::int64_t kLongestSum = 8192;

Support supports_products(const ir::Graph& graph, const ir::Node& node) {
  const auto is_half = [&](ir::ValueId id) {
    return graph.type(id).data_type == DataType::kBFloat16;
  };
  if (!is_half(node.inputs[0]) || !is_half(node.inputs[1])) return supports_operands(graph, node);
  const MatmulProblem p = matmul_problem_of(graph, node);
  if (p.multiplications() <= kFewestMultiplications || p.k > kLongestSum) {
    return Support::no("oneDNN: small products and long sums of bfloat16 in float32");
  }
  return supports_bfloat16(graph, node);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = supports_products(graph, node); !s.yes) return s;
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

// An operand of all parts: the axis that is cut reaches `step` bytes from one index to the next.
struct Cut {
  memory::desc desc;
  std::size_t step;

  Cut(const memory::desc& whole, int axis, bool is_cut)
      : desc(whole),
        step(is_cut
                 ? static_cast<std::size_t>(whole.get_strides()[static_cast<std::size_t>(axis)]) *
                       dnnl::memory::data_type_size(whole.get_data_type())
                 : 0) {}

  memory::desc of(int axis, std::int64_t extent) const {
    memory::dims shape = desc.get_dims();
    if (step > 0) shape[static_cast<std::size_t>(axis)] = extent;
    return memory::desc(shape, desc.get_data_type(), desc.get_strides());
  }
};

// Parts of a product, each with a primitive of one thread.
class MatmulInParts final : public Kernel {
 public:
  MatmulInParts(const ir::Graph& graph, const ir::Node& node)
      : workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    const Problem p = problem_of(graph, node);
    const auto& attributes = std::get<MatmulAttributes>(node.attributes);
    const Epilogue epilogue = *epilogue_of(attributes.epilogue);
    const memory::dims shape = p.y.get_dims();
    memory::dims bias_shape(shape.size(), 1);
    bias_shape.back() = shape.back();
    const int rows = static_cast<int>(shape.size()) - 2, columns = rows + 1;
    // The first leading axis that there is to cut, else the longer one of rows and columns.
    const auto lead = std::find_if(shape.begin(), shape.end() - 2, [](auto n) { return n > 1; });
    axis_ = static_cast<int>(lead - shape.begin());
    if (axis_ == rows && shape.back() > shape[static_cast<std::size_t>(rows)]) axis_ = columns;
    const std::int64_t extent = shape[static_cast<std::size_t>(axis_)];
    // Whole vectors and cache lines of every level.
    const std::int64_t unit = axis_ < rows ? 1 : 16;
    const auto wanted = static_cast<std::int64_t>(
        std::clamp(p.operations / kPartOperations, 1.0, static_cast<double>(kMostParts)));
    each_ = ((extent + wanted - 1) / wanted + unit - 1) / unit * unit;
    const std::int64_t parts = (extent + each_ - 1) / each_;
    const auto is_cut = [&](const memory::desc& desc) {
      return axis_ < rows && desc.get_dims()[static_cast<std::size_t>(axis_)] > 1;
    };
    const Cut a(p.a, axis_, axis_ == rows || is_cut(p.a));
    const Cut b(p.b, axis_, axis_ == columns || is_cut(p.b));
    const Cut y(p.y, axis_, true);
    const DataType bias_type =
        epilogue.bias ? graph.type(node.inputs[2]).data_type : DataType::kFloat32;
    const Cut bias(*describe(bias_shape, {}, bias_type), axis_, epilogue.bias && axis_ == columns);
    for (const Cut* operand : {&a, &b, &y, &bias}) steps_.push_back(operand->step);
    operands_ = {node.inputs[0], node.inputs[1], node.outputs[0],
                 epilogue.bias ? node.inputs[2] : node.outputs[0]};
    threads_ = threads_for(nanoseconds_to_compute(p.operations));
    threads_ = static_cast<int>(std::min<std::int64_t>(threads_, parts));
    const ThreadScope scope(1);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t here = std::min(each_, extent - part * each_);
      parts_.push_back(part_over(attributes, epilogue, a.of(axis_, here), b.of(axis_, here),
                                 y.of(axis_, here), bias.of(axis_, here)));
      scratch_ = std::max(scratch_, (parts_.back()->workspace_bytes() + 63) / 64 * 64);
    }
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(threads_) * scratch_;
  }

  void run(Pointers pointers) override {
    const auto parts = static_cast<std::int64_t>(parts_.size());
    tasks_.share_out(parts, threads_);
    parallel_for(threads_, threads_, [&](std::int64_t thread) {
      std::byte* addresses[kOperands + 1];
      addresses[kOperands] = pointers[workspace_] + static_cast<std::size_t>(thread) * scratch_;
      tasks_.take_all(thread, 1, [&](std::int64_t part, std::int64_t) {
        const auto first = static_cast<std::size_t>(part * each_);
        for (std::size_t k = 0; k < kOperands; ++k) {
          addresses[k] = pointers[operands_[k]] + first * steps_[k];
        }
        parts_[static_cast<std::size_t>(part)]->run(addresses);
      });
    });
  }

 private:
  static constexpr std::size_t kOperands = 4;  // a, b, y, bias
  // A part takes some tens of microseconds at least, so that a call does not count.
  static constexpr double kPartOperations = 4e6;
  static constexpr std::int64_t kMostParts = 8;

  static std::unique_ptr<Kernel> part_over(const MatmulAttributes& attributes,
                                           const Epilogue& epilogue, const memory::desc& a,
                                           const memory::desc& b, const memory::desc& y,
                                           const memory::desc& bias) {
    const auto primitive_with = [&](bool parametric) {
      dnnl::post_ops operations;
      if (attributes.alpha != 1) {
        const auto alpha = static_cast<float>(attributes.alpha);
        operations.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
      }
      epilogue.append_function(operations, parametric);
      dnnl::primitive_attr attr = onednn_attributes();
      if (operations.len() > 0) attr.set_post_ops(operations);
      return dnnl::matmul::primitive_desc(onednn_engine(), a, b,
                                          epilogue.bias ? bias : memory::desc(), y, attr);
    };
    bool parametric = epilogue.relu;
    auto description = primitive_with(parametric);
    if (parametric && is_plain_loop(description)) {
      parametric = false;
      description = primitive_with(parametric);
    }
    std::vector<Argument> arguments = {
        {DNNL_ARG_SRC, 0, a}, {DNNL_ARG_WEIGHTS, 1, b}, {DNNL_ARG_DST, 2, y}};
    if (epilogue.bias) arguments.push_back({DNNL_ARG_BIAS, 3, bias});
    if (parametric) arguments.push_back(relu_slope(y.get_dims().size()));
    // Addresses of a part: its operands, then a workspace.
    ir::Graph alone;
    alone.values.resize(kOperands);
    alone.nodes.resize(1);
    return make_primitive_kernel(alone, alone.nodes[0], "matmul", dnnl::matmul(description),
                                 description, arguments, 1);
  }

  std::size_t workspace_;
  std::array<ir::ValueId, kOperands> operands_{};
  std::vector<std::size_t> steps_;  // bytes of each operand from one index of the axis to the next
  int axis_ = 0;
  std::int64_t each_ = 1;  // extent of a part, but for the last one
  std::vector<std::unique_ptr<Kernel>> parts_;
  std::size_t scratch_ = 0;  // bytes of each thread
  int threads_ = 1;
  SharedTasks tasks_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return guarded("matmul", [&]() -> std::unique_ptr<Kernel> {
    return std::make_unique<MatmulInParts>(graph, node);
  });
}

}  // namespace

const std::vector<KernelEntry>& matmul_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::matmul, supports, make, nullptr, fuses}};
  return entries;
}

}  // namespace traingraph::cpu
