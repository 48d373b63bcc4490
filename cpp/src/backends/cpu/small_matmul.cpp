// Matrix products that stay in the caches: a library's call and its threads would cost more than
// the arithmetic. Of operands of 16 bits the first is widened in the workspace, and the second as
// it is read; results are rounded as they leave the registers.
#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa/products/matrix.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/parallel.h"
#include "ir/epilogue.h"
#include "ir/extents.h"

namespace traingraph::cpu {
namespace {

constexpr double kMostMultiplications = 2.2e6;
constexpr std::int64_t kLongestInner = 4096;  // sums are float32
// Rows up to which packing b transposed costs more than it gains, if sums are long enough.
constexpr std::int64_t kFewRows = 4;
constexpr std::int64_t kLongDots = 32;

const ir::MatmulAttributes& attributes_of(const ir::Node& node) {
  return std::get<ir::MatmulAttributes>(node.attributes);
}

struct Extents {
  std::int64_t matrices, m, n, k;
};

Extents extents_of(const ir::Graph& graph, const ir::Node& node) {
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& y = graph.type(node.outputs[0]).shape;
  const std::int64_t m = y[y.size() - 2];
  const std::int64_t n = y[y.size() - 1];
  const std::int64_t k = a[a.size() - (attributes_of(node).transpose_a ? 2 : 1)];
  return {element_count(y) / std::max<std::int64_t>(1, m * n), m, n, k};
}

Support supports_shape(const ir::Graph& graph, const ir::Node& node) {
  const Extents e = extents_of(graph, node);
  const double work = static_cast<double>(e.matrices) * static_cast<double>(e.m) *
                      static_cast<double>(e.n) * static_cast<double>(e.k);
  if (work > kMostMultiplications || e.k > kLongestInner) {
    return Support::no("larger than hand-written matrix loops take");
  }
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& b = graph.type(node.inputs[1]).shape;
  if (e.matrices > 1 && !std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2)) {
    return Support::no("hand-written matrix loops do not broadcast leading axes");
  }
  const std::optional<ir::AddReluEpilogue> epilogue =
      ir::add_relu_epilogue_of(attributes_of(node).epilogue);
  if (!epilogue) return Support::no("hand-written matrix loops end with a bias and relu at most");
  if (epilogue->adds &&
      !is_bias_of_columns(graph.value(node.inputs[2]), e.n, graph.type(node.inputs[0]).data_type)) {
    return Support::no("hand-written matrix loops add a row of " + std::to_string(e.n));
  }
  return {};
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  for (ir::ValueId id : node.inputs) {
    if (graph.type(id).data_type != DataType::kFloat32) {
      return Support::no("hand-written matrix loops take float32");
    }
  }
  return supports_shape(graph, node);
}

Support supports_halves(const ir::Graph& graph, const ir::Node& node) {
  if (!multiplies_halves(graph, node)) {
    return Support::no("hand-written matrix loops take two operands of one type of 16 bits");
  }
  return supports_shape(graph, node);
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const std::optional<ir::AddReluEpilogue> epilogue = ir::add_relu_epilogue_of(list);
  if (!epilogue || list.empty() || !attributes_of(node).epilogue.empty()) return false;
  return !epilogue->adds ||
         (extra.size() == 1 && is_bias_of_columns(graph.value(extra[0]), extents_of(graph, node).n,
                                                  graph.type(node.inputs[0]).data_type));
}

class SmallMatmul final : public Kernel {
 public:
  SmallMatmul(const ir::Graph& graph, const ir::Node& node)
      : loops_(*loops().matrix),
        extents_(extents_of(graph, node)),
        a_(node.inputs[0]),
        b_(node.inputs[1]),
        y_(node.outputs[0]),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    const ir::MatmulAttributes& attributes = attributes_of(node);
    const ir::AddReluEpilogue epilogue = *ir::add_relu_epilogue_of(attributes.epilogue);
    bias_ = epilogue.adds ? node.inputs[2] : ir::kNone;
    const bool ta = attributes.transpose_a;
    product_ = {extents_.m,
                extents_.n,
                extents_.k,
                ta ? 1 : extents_.k,
                ta ? extents_.m : 1,
                attributes.transpose_b,
                static_cast<float>(attributes.alpha),
                epilogue.relu,
                ir::is_half(graph.type(y_).data_type),
                extents_.m};
    dots_ = product_.b_transposed && product_.a_inner == 1 && extents_.m <= kFewRows &&
            extents_.k >= kLongDots;
    panels_ = (extents_.n + loops_.panel_columns - 1) / loops_.panel_columns;
    const double multiplications = static_cast<double>(extents_.matrices * extents_.m) *
                                   static_cast<double>(extents_.n * extents_.k);
    threads_ = threads_for(multiplications / 30);
    type_ = graph.type(a_).data_type;
    packs_ = (product_.b_transposed || ir::is_half(type_)) && !dots_;
    if (ir::is_half(type_)) wide_a_ = whole_lines(graph.type(a_).elements());
    const bool adds_halves = bias_ != ir::kNone && ir::is_half(graph.type(bias_).data_type);
    if (adds_halves) wide_bias_ = whole_lines(extents_.n);
  }

  // Floats: a and the bias where they have 16 bits, then panels of b that are packed, one per task:
  // (K, panel columns).
  std::size_t workspace_bytes() const override {
    const std::int64_t panels = packs_ ? ir::product(tasks(), panel_floats()) : 0;
    const std::int64_t floats = ir::sum(wide_a_ + wide_bias_, panels);
    return static_cast<std::size_t>(ir::product(floats, static_cast<std::int64_t>(sizeof(float))));
  }

  void run(Pointers pointers) override {
    float* const scratch = reinterpret_cast<float*>(pointers[workspace_]);
    const float* a = reinterpret_cast<const float*>(pointers[a_]);
    if (wide_a_ > 0) {
      widen_a(pointers[a_], scratch);
      a = scratch;
    }
    const float* bias =
        bias_ == ir::kNone ? nullptr : reinterpret_cast<const float*>(pointers[bias_]);
    if (wide_bias_ > 0) {
      widen(type_, pointers[bias_], scratch + wide_a_, extents_.n);
      bias = scratch + wide_a_;
    }
    float* packed = packs_ ? scratch + wide_a_ + wide_bias_ : nullptr;
    const auto loop = static_cast<std::size_t>(loop_of(type_));
    const std::int64_t width = loops_.panel_columns;
    parallel_for(tasks(), threads_, [&](std::int64_t task) {
      const std::int64_t matrix = task / panels_;
      const std::int64_t column = task % panels_ * width;
      const std::int64_t columns = std::min(width, extents_.n - column);
      const float* left = a + matrix * extents_.m * extents_.k;
      const std::byte* right =
          pointers[b_] + matrix * extents_.k * extents_.n * (ir::is_half(type_) ? 2 : 4);
      std::byte* to = pointers[y_] + matrix * extents_.m * extents_.n * (product_.rounds ? 2 : 4);
      if (dots_) {
        loops_.dots[loop](product_, left, right, bias, to, column, columns);
      } else {
        loops_.panel[loop](product_, left, right, bias, to, column, columns,
                           packs_ ? packed + task * panel_floats() : nullptr);
      }
    });
  }

 private:
  static std::int64_t whole_lines(std::int64_t floats) { return (floats + 15) / 16 * 16; }
  void widen_a(const std::byte* a, float* wide) const {
    constexpr std::int64_t kPartElements = 16384;
    const std::int64_t elements = extents_.matrices * extents_.m * extents_.k;
    const int threads = elements > 2 * kPartElements ? threads_ : 1;
    parallel_for((elements + kPartElements - 1) / kPartElements, threads, [&](std::int64_t part) {
      const std::int64_t at = part * kPartElements;
      widen(type_, a + 2 * at, wide + at, std::min(kPartElements, elements - at));
    });
  }
  std::int64_t tasks() const { return extents_.matrices * panels_; }
  std::int64_t panel_floats() const { return extents_.k * loops_.panel_columns; }

  const MatrixLoops& loops_;
  Extents extents_;
  MatrixProduct product_{};
  ir::ValueId a_, b_, y_, bias_ = ir::kNone;
  std::size_t workspace_;
  DataType type_ = DataType::kFloat32;       // of a and b
  std::int64_t wide_a_ = 0, wide_bias_ = 0;  // floats, where they are widened
  std::int64_t panels_ = 1;
  int threads_ = 1;
  bool dots_ = false;
  bool packs_ = false;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<SmallMatmul>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& small_matmul_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::matmul, supports, make, nullptr, fuses}};
  return entries;
}

const std::vector<KernelEntry>& small_half_matmul_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::matmul, supports_halves, make, nullptr, fuses}};
  return entries;
}

}  // namespace traingraph::cpu
