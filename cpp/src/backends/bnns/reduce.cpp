// Sums and sums of squares by vDSP, along any axes.
#include <algorithm>

#include "backends/bnns/bnns.h"
#include "backends/bnns/sums.h"

namespace traingraph::bnns {
namespace {

// Neighbouring axes that are all reduced, or all kept, are one. Outermost first.
struct Group {
  std::size_t extent;
  bool reduced;
};

std::vector<Group> groups_of(const Shape& source, const std::vector<int>& axes) {
  std::vector<Group> groups;
  for (std::size_t axis = 0; axis < source.size(); ++axis) {
    if (source[axis] == 1) continue;
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end();
    if (!groups.empty() && groups.back().reduced == reduced) {
      groups.back().extent *= extent(source[axis]);
    } else {
      groups.push_back({extent(source[axis]), reduced});
    }
  }
  if (groups.empty()) groups.push_back({1, true});
  return groups;
}

// The innermost group is a run. Where it is reduced each run gives one number, else runs are added
// element by element; in both cases in float64, in an order that the shape alone decides.
class Reduce final : public Kernel {
 public:
  Reduce(const ir::Graph& graph, const ir::Node& node, const ir::ReduceAttributes& attributes)
      : groups_(groups_of(graph.type(node.inputs[0]).shape, attributes.axes)),
        run_(groups_.back()),
        norm_(attributes.kind == ir::ReduceKind::norm),
        results_(elements(graph.type(node.outputs[0]).shape)),
        runs_(elements(graph.type(node.inputs[0]).shape) / run_.extent),
        x_(node.inputs[0]),
        y_(node.outputs[0]),
        workspace_(workspace_of(graph, node)) {
    groups_.pop_back();
  }

  std::size_t workspace_bytes() const override {
    return results_ * sizeof(double) + run_.extent * (sizeof(double) + sizeof(float));
  }

  void run(Pointers pointers) override {
    const float* x = read(pointers, x_);
    double* totals = reinterpret_cast<double*>(pointers[workspace_]);
    std::fill_n(totals, results_, 0.0);
    for (std::size_t at = 0; at < runs_; ++at, x += run_.extent) {
      double* result = totals + result_of(at);
      if (run_.reduced) {
        *result += norm_ ? sum_of_squares({x, 1}, run_.extent) : sum({x, 1}, run_.extent);
      } else {
        add_elements(x, result, totals + results_);
      }
    }
    if (norm_) {
      std::transform(totals, totals + results_, totals, [](double sum) { return std::sqrt(sum); });
    }
    vDSP_vdpsp(totals, 1, write(pointers, y_), 1, results_);
  }

 private:
  // The first result of a run: the kept ones of the outer groups' positions, row-major.
  std::size_t result_of(std::size_t at) const {
    std::size_t found = 0;
    std::size_t step = run_.reduced ? 1 : run_.extent;
    for (std::size_t g = groups_.size(); g-- > 0;) {
      if (!groups_[g].reduced) {
        found += at % groups_[g].extent * step;
        step *= groups_[g].extent;
      }
      at /= groups_[g].extent;
    }
    return found;
  }

  void add_elements(const float* x, double* result, double* wide) const {
    vDSP_vspdp(x, 1, wide, 1, run_.extent);
    if (norm_) vDSP_vsqD(wide, 1, wide, 1, run_.extent);
    vDSP_vaddD(result, 1, wide, 1, result, 1, run_.extent);
  }

  std::vector<Group> groups_;
  Group run_;
  bool norm_;
  std::size_t results_, runs_;
  ir::ValueId x_, y_;
  std::size_t workspace_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (std::get<ir::ReduceAttributes>(node.attributes).kind == ir::ReduceKind::not_finite) {
    return Support::no("vDSP: no count of what is not finite");
  }
  return plain_float32(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Reduce>(graph, node, std::get<ir::ReduceAttributes>(node.attributes));
}

}  // namespace

const std::vector<KernelEntry>& reduce_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::reduce, supports, make}};
  return entries;
}

}  // namespace traingraph::bnns
