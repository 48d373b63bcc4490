// Matrix products beyond the caches, by own loops. They are cut into tasks by shape
// (matmul_cut.h), so results do not depend on the number of threads. Operands of 16 bits are
// widened as they are packed, and results of 16 bits rounded as a tile leaves the registers.
#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
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
         is_bias_of_columns(graph.value(extra[0]), graph.type(node.outputs[0]).shape.back(),
                            graph.type(node.inputs[0]).data_type);
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  return tail_list(node).empty() && takes(graph, node, list, extra);
}

Support supports_shape(const ir::Graph& graph, const ir::Node& node, bool is_choice) {
  if (graph.type(node.outputs[0]).elements() == 0) {
    return Support::no("blocked matrix loops want a result of one element or more");
  }
  const MatmulProblem p = matmul_problem_of(graph, node);
  if (p.k == 0) return Support::no("blocked matrix loops want sums of one term or more");
  if (p.k <= kLongSum) {
    if (!is_choice && !is_faster(node, p)) {
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

Support supports(const ir::Graph& graph, const ir::Node& node) {
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (graph.type(id).data_type != DataType::kFloat32) {
        return Support::no("blocked matrix loops take float32");
      }
    }
  }
  return supports_shape(graph, node, false);
}

// A library's products would need operands that are widened before.
Support supports_halves(const ir::Graph& graph, const ir::Node& node) {
  if (!multiplies_halves(graph, node)) {
    return Support::no("blocked matrix loops take two operands of one type of 16 bits");
  }
  return supports_shape(graph, node, true);
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
        type_(graph.type(a_).data_type),
        y_type_(graph.type(y_).data_type),
        bias_type_(tail_.adds ? graph.type(bias_).data_type : DataType::kFloat32),
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
    const std::int64_t rows = most(problem_.m, cut_.rows);
    packed_ = loops_.scratch_floats(rows, problem_.n, most(problem_.k, cut_.parts));
    packed_ = (packed_ + 15) / 16 * 16;
    at_once_ = std::max<std::int64_t>(1, kMostColumns * cut_.columns / problem_.n);
    if (ir::is_half(y_type_) && !cut_.has_sums() &&
        (!functions_.empty() || loops_.has_blocks(problem_.k))) {
      for (std::int64_t first = 0; first < cut_.columns; ++first) {
        const std::int64_t end = std::min(first + at_once_, cut_.columns);
        block_columns_ = std::max(block_columns_, column_begin(end) - column_begin(first));
      }
    }
    scratch_ = packed_ + (rows * block_columns_ + 15) / 16 * 16;
    if (ir::is_half(bias_type_)) bias_floats_ = (problem_.n + 15) / 16 * 16;
  }

  // A scratch for each thread: what it packs, and a block of sums of a result that is 16 bits. Then
  // the bias, if that has to be widened, and sums (matrices, parts, M, N).
  std::size_t workspace_bytes() const override {
    const std::int64_t floats = ir::sum(ir::product(threads_, scratch_), bias_floats_);
    const std::int64_t packed = ir::product(floats, 4);
    if (!cut_.has_sums()) return static_cast<std::size_t>(packed);
    const std::int64_t sums = ir::product(ir::product(problem_.matrices, cut_.parts),
                                          ir::product(problem_.m, problem_.n));
    return static_cast<std::size_t>(ir::sum(packed, ir::product(sums, cut_.wide ? 8 : 4)));
  }

  void run(Pointers pointers) override {
    auto* const scratch = reinterpret_cast<float*>(pointers[workspace_]);
    if (bias_floats_ > 0) {
      widen(bias_type_, pointers[bias_], scratch + threads_ * scratch_, problem_.n);
    }
    // Threads take tasks that follow each other. Those side by side are multiplied as one: a row's
    // packed elements serve them all, and no result knows.
    shared_.share_out(tasks(), threads_);
    parallel_for(threads_, threads_, [&](std::int64_t thread) {
      shared_.take_all(thread, at_once_, [&](std::int64_t first, std::int64_t count) {
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
  std::int64_t column_begin(std::int64_t block) const {
    return cut_begin(problem_.n, loops_.panel_columns, cut_.columns, block);
  }
  // An element of an operand or of the result.
  static std::byte* element(Pointers pointers, ir::ValueId value, DataType type, std::int64_t at) {
    return pointers[value] + at * (ir::is_half(type) ? 2 : 4);
  }
  float* result(Pointers pointers) const { return reinterpret_cast<float*>(pointers[y_]); }
  const float* bias(Pointers pointers) const {
    if (bias_floats_ > 0) {
      return reinterpret_cast<const float*>(pointers[workspace_]) + threads_ * scratch_;
    }
    return bias_ == ir::kNone ? nullptr : reinterpret_cast<const float*>(pointers[bias_]);
  }
  std::byte* sums(Pointers pointers) const {
    const auto floats = static_cast<std::size_t>(threads_ * scratch_ + bias_floats_);
    return pointers[workspace_] + floats * sizeof(float);
  }

  // So many blocks of columns.
  void multiply(Pointers pointers, std::int64_t task, std::int64_t count, float* scratch) const {
    const MatmulProblem& p = problem_;
    const std::int64_t column_block = task % cut_.columns;
    const std::int64_t row_block = task / cut_.columns % cut_.rows;
    const std::int64_t part = task / (cut_.columns * cut_.rows) % cut_.parts;
    const std::int64_t matrix = task / cut_.tasks();
    const std::int64_t row = cut_begin(p.m, 1, cut_.rows, row_block);
    const std::int64_t column = column_begin(column_block);
    const std::int64_t inner = cut_begin(p.k, 1, cut_.parts, part);
    BlockedProduct block{};
    block.m = cut_begin(p.m, 1, cut_.rows, row_block + 1) - row;
    block.n = column_begin(column_block + count) - column;
    block.k = cut_begin(p.k, 1, cut_.parts, part + 1) - inner;
    block.a = element(pointers, a_, type_, p.a_begin(matrix) + row * p.a_row + inner * p.a_inner);
    block.a_row = p.a_row;
    block.a_inner = p.a_inner;
    block.b =
        element(pointers, b_, type_, p.b_begin(matrix) + inner * p.b_inner + column * p.b_column);
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
      const bool rounds = ir::is_half(y_type_);
      if (rounds) {
        block.c = scratch + packed_;
        block.c_row = block_columns_;
        if (functions_.empty()) block.y = element(pointers, y_, y_type_, matrix * p.m * p.n + here);
        block.y_row = p.n;
      } else {
        block.c = result(pointers) + matrix * p.m * p.n + here;
      }
      block.bias = bias(pointers) == nullptr ? nullptr : bias(pointers) + column;
      block.alpha = p.alpha;
      block.relu = tail_.relu;
    }
    loops_.multiply[loop_of(type_)](block, scratch);
    if (cut_.has_sums() || functions_.empty()) return;
    for (std::int64_t i = 0; i < block.m; ++i) {
      float* const floats = block.c + i * block.c_row;
      apply(floats, block.n);
      if (!ir::is_half(y_type_)) continue;
      const std::int64_t to = matrix * p.m * p.n + here + i * p.n;
      narrow(y_type_, floats, element(pointers, y_, y_type_, to), block.n);
    }
  }

  // Adds the parts of one row of the results.
  void add(Pointers pointers, std::int64_t row) const {
    if (!ir::is_half(y_type_)) {
      return add_columns(pointers, row, 0, problem_.n, result(pointers) + row * problem_.n);
    }
    constexpr std::int64_t kAtOnce = 1024;
    float floats[kAtOnce];
    for (std::int64_t column = 0; column < problem_.n; column += kAtOnce) {
      const std::int64_t here = std::min(kAtOnce, problem_.n - column);
      add_columns(pointers, row, column, here, floats);
      narrow(y_type_, floats, element(pointers, y_, y_type_, row * problem_.n + column), here);
    }
  }

  void add_columns(Pointers pointers, std::int64_t row, std::int64_t column, std::int64_t columns,
                   float* c) const {
    const std::int64_t n = problem_.n, m = problem_.m;
    const std::int64_t first = row / m * cut_.parts * m * n + row % m * n + column;
    const float* const shift = bias(pointers) == nullptr ? nullptr : bias(pointers) + column;
    if (cut_.wide) {
      loops_.add_doubles(reinterpret_cast<const double*>(sums(pointers)) + first, cut_.parts, m * n,
                         problem_.alpha, shift, tail_.relu, columns, c);
    } else {
      loops_.add_floats(reinterpret_cast<const float*>(sums(pointers)) + first, cut_.parts, m * n,
                        problem_.alpha, shift, tail_.relu, columns, c);
    }
    apply(c, columns);
  }

  void apply(float* row, std::int64_t columns) const {
    for (const RowFunction& f : functions_) f.loop(row, row, row, f.immediates, columns);
  }

  const BlockedProductLoops& loops_;
  MatmulProblem problem_;
  MatmulTail tail_;
  MatmulCut cut_;
  ir::ValueId a_, b_, y_, bias_;
  DataType type_, y_type_, bias_type_;  // type_: of a and b
  std::size_t workspace_;
  std::vector<RowFunction> functions_;
  std::int64_t at_once_ = 1;        // blocks of columns that a thread multiplies as one
  std::int64_t packed_ = 0;         // floats that a thread packs
  std::int64_t block_columns_ = 0;  // of a block of sums, if a thread has one
  std::int64_t scratch_ = 0;        // floats of each thread
  std::int64_t bias_floats_ = 0;    // of a bias that is widened
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

const std::vector<KernelEntry>& blocked_half_matmul_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::matmul, supports_halves, make, nullptr, fuses}};
  return entries;
}

}  // namespace traingraph::cpu
