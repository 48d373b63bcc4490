// Matrix products beyond the caches, by own loops. They are cut into tasks by shape
// (matmul_cut.h), so results do not depend on the number of threads.
#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa/products/blocked_product.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/matmul_cut.h"
#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/parallel.h"
#include "ir/extents.h"

namespace traingraph::cpu {
namespace {

// One row or column alone is read once, and packing would cost more than that.
constexpr std::int64_t kLeastRows = 2, kLeastColumns = 2;
// Sums beyond are better in float64, which these loops alone have.
constexpr std::int64_t kLongSum = 8192;
constexpr double kMultiplicationsPerNanosecond = 40;

// A library's products take less time at some levels, but for a transposed b: oneDNN's transpose
// all of it first, which few rows do not pay for.
bool is_faster(const ir::Node& node, const MatmulProblem& p) {
  constexpr std::int64_t kFewest = 16, kMost = 512;
  return loops().blocked_product->preferred ||
         (std::get<ir::MatmulAttributes>(node.attributes).transpose_b && p.m >= kFewest &&
          p.m <= kMost);
}

const ir::ScalarList& tail_list(const ir::Node& node) {
  return std::get<ir::MatmulAttributes>(node.attributes).epilogue;
}

bool takes(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const std::optional<MatmulTail> tail = matmul_tail_of(list);
  if (!tail || extra.size() != (tail->adds ? 1u : 0u)) return false;
  return !tail->adds ||
         is_bias_of_columns(graph.value(extra[0]), graph.type(node.outputs[0]).shape.back());
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  return tail_list(node).empty() && takes(graph, node, list, extra);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (graph.type(id).data_type != DataType::kFloat32) {
        return Support::no("blocked matrix loops take float32");
      }
    }
  }
  if (graph.type(node.outputs[0]).elements() == 0) {
    return Support::no("blocked matrix loops want a result of one element or more");
  }
  const MatmulProblem p = matmul_problem_of(graph, node);
  if (p.k == 0) return Support::no("blocked matrix loops want sums of one term or more");
  if (p.k <= kLongSum) {
    if (!is_faster(node, p)) {
      return Support::no(std::string("a library's products are the choice at level ") +
                         loops().level);
    }
    if (p.m < kLeastRows || p.n < kLeastColumns) {
      return Support::no("fewer rows or columns than blocked matrix loops gain from");
    }
  }
  const std::vector<ir::ValueId> extra(node.inputs.begin() + 2, node.inputs.end());
  if (!takes(graph, node, tail_list(node), extra)) {
    return Support::no("blocked matrix loops end with a bias and functions of one number");
  }
  return {};
}

class BlockedMatmul final : public Kernel {
 public:
  BlockedMatmul(const ir::Graph& graph, const ir::Node& node)
      : loops_(*loops().blocked_product),
        problem_(matmul_problem_of(graph, node)),
        tail_(*matmul_tail_of(tail_list(node))),
        cut_(matmul_cut_of(problem_.matrices, problem_.m, problem_.n, problem_.k)),
        a_(node.inputs[0]),
        b_(node.inputs[1]),
        y_(node.outputs[0]),
        bias_(tail_.adds ? node.inputs[2] : ir::kNone),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    for (const MatmulTail::Function& f : tail_.functions) {
      const std::size_t which = static_cast<std::size_t>(f.function);
      functions_.push_back({loops().elementwise->functions[which].arrays, f.immediates});
    }
    threads_ = static_cast<int>(std::min<std::int64_t>(
        threads_for(problem_.multiplications() / kMultiplicationsPerNanosecond), tasks()));
    const auto most = [](std::int64_t extent, std::int64_t count) {
      return (extent + count - 1) / count;
    };
    scratch_ = loops_.scratch_floats(most(problem_.m, cut_.rows), problem_.n,
                                     most(problem_.k, cut_.parts));
    scratch_ = (scratch_ + 15) / 16 * 16;
  }

  // A scratch for each thread, then sums (matrices, parts, M, N).
  std::size_t workspace_bytes() const override {
    const std::int64_t packed = ir::product(ir::product(threads_, scratch_), 4);
    if (!cut_.has_sums()) return static_cast<std::size_t>(packed);
    const std::int64_t sums = ir::product(ir::product(problem_.matrices, cut_.parts),
                                          ir::product(problem_.m, problem_.n));
    return static_cast<std::size_t>(ir::sum(packed, ir::product(sums, cut_.wide ? 8 : 4)));
  }

  void run(Pointers pointers) override {
    auto* const scratch = reinterpret_cast<float*>(pointers[workspace_]);
    // Threads take tasks that follow each other. Those side by side are multiplied as one: a row's
    // packed elements serve them all, and no result knows.
    const std::int64_t at_once =
        std::max<std::int64_t>(1, kMostColumns * cut_.columns / problem_.n);
    shared_.share_out(tasks(), threads_);
    parallel_for(threads_, threads_, [&](std::int64_t thread) {
      shared_.take_all(thread, at_once, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t task = first, next = 0; task < first + count; task = next) {
          next = std::min(first + count, (task / cut_.columns + 1) * cut_.columns);
          multiply(pointers, task, next - task, scratch + thread * scratch_);
        }
      });
    });
    if (!cut_.has_sums()) return;
    // Rows of all results, a few at a time.
    const std::int64_t rows = problem_.matrices * problem_.m;
    const std::int64_t rows_at_once = std::max<std::int64_t>(1, 4096 / problem_.n);
    parallel_for((rows + rows_at_once - 1) / rows_at_once, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(rows, (part + 1) * rows_at_once);
      for (std::int64_t row = part * rows_at_once; row < end; ++row) add(pointers, row);
    });
  }

 private:
  struct RowFunction {
    FunctionLoop loop;
    Immediates immediates;
  };

  std::int64_t tasks() const { return problem_.matrices * cut_.tasks(); }
  float* result(Pointers pointers) const { return reinterpret_cast<float*>(pointers[y_]); }
  const float* bias(Pointers pointers) const {
    return bias_ == ir::kNone ? nullptr : reinterpret_cast<const float*>(pointers[bias_]);
  }
  std::byte* sums(Pointers pointers) const {
    return pointers[workspace_] + static_cast<std::size_t>(threads_ * scratch_) * sizeof(float);
  }

  // So many blocks of columns.
  void multiply(Pointers pointers, std::int64_t task, std::int64_t count, float* scratch) const {
    const MatmulProblem& p = problem_;
    const std::int64_t column_block = task % cut_.columns;
    const std::int64_t row_block = task / cut_.columns % cut_.rows;
    const std::int64_t part = task / (cut_.columns * cut_.rows) % cut_.parts;
    const std::int64_t matrix = task / cut_.tasks();
    const std::int64_t row = cut_begin(p.m, 1, cut_.rows, row_block);
    const std::int64_t column = cut_begin(p.n, loops_.panel_columns, cut_.columns, column_block);
    const std::int64_t inner = cut_begin(p.k, 1, cut_.parts, part);
    BlockedProduct block{};
    block.m = cut_begin(p.m, 1, cut_.rows, row_block + 1) - row;
    block.n = cut_begin(p.n, loops_.panel_columns, cut_.columns, column_block + count) - column;
    block.k = cut_begin(p.k, 1, cut_.parts, part + 1) - inner;
    block.a = reinterpret_cast<const float*>(pointers[a_]) + p.a_begin(matrix) + row * p.a_row +
              inner * p.a_inner;
    block.a_row = p.a_row;
    block.a_inner = p.a_inner;
    block.b = reinterpret_cast<const float*>(pointers[b_]) + p.b_begin(matrix) + inner * p.b_inner +
              column * p.b_column;
    block.b_inner = p.b_inner;
    block.b_column = p.b_column;
    block.c_row = p.n;
    block.alpha = 1;
    const std::int64_t here = row * p.n + column;
    const std::int64_t sums_here = (matrix * cut_.parts + part) * p.m * p.n + here;
    if (cut_.wide) {
      block.sums = reinterpret_cast<double*>(sums(pointers)) + sums_here;
    } else if (cut_.has_sums()) {
      block.c = reinterpret_cast<float*>(sums(pointers)) + sums_here;
    } else {
      block.c = result(pointers) + matrix * p.m * p.n + here;
      block.bias = bias(pointers) == nullptr ? nullptr : bias(pointers) + column;
      block.alpha = p.alpha;
      block.relu = tail_.relu;
    }
    loops_.multiply(block, scratch);
    if (cut_.has_sums()) return;
    for (std::int64_t i = 0; i < block.m; ++i) apply(block.c + i * p.n, block.n);
  }

  // Adds the parts of one row of the results.
  void add(Pointers pointers, std::int64_t row) const {
    const std::int64_t n = problem_.n, m = problem_.m;
    const std::int64_t first = row / m * cut_.parts * m * n + row % m * n;
    float* const c = result(pointers) + row * n;
    if (cut_.wide) {
      loops_.add_doubles(reinterpret_cast<const double*>(sums(pointers)) + first, cut_.parts, m * n,
                         problem_.alpha, bias(pointers), tail_.relu, n, c);
    } else {
      loops_.add_floats(reinterpret_cast<const float*>(sums(pointers)) + first, cut_.parts, m * n,
                        problem_.alpha, bias(pointers), tail_.relu, n, c);
    }
    apply(c, n);
  }

  void apply(float* row, std::int64_t columns) const {
    for (const RowFunction& f : functions_) f.loop(row, row, row, f.immediates, columns);
  }

  const BlockedProductLoops& loops_;
  MatmulProblem problem_;
  MatmulTail tail_;
  MatmulCut cut_;
  ir::ValueId a_, b_, y_, bias_;
  std::size_t workspace_;
  std::vector<RowFunction> functions_;
  std::int64_t scratch_ = 0;  // floats of each thread
  int threads_ = 1;
  SharedTasks shared_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<BlockedMatmul>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& blocked_matmul_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::matmul, supports, make, nullptr, fuses}};
  return entries;
}

}  // namespace traingraph::cpu
