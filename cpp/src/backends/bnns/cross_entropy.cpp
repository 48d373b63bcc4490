// Softmax cross entropy and its gradient along class axis 1, by vDSP and vForce. BNNS's loss layer
// gives no logarithm of the sum, which is a value of the graph here, and takes no classes.
#include <cmath>

#include "backends/bnns/bnns.h"
#include "backends/bnns/rows.h"

namespace traingraph::bnns {
namespace {

// Of the forward op (logits, labels), of the gradient (dloss, logits, labels, logarithm).
std::size_t logits_of(const ir::Node& node) {
  return node.op == ir::Op::softmax_cross_entropy ? 0 : 1;
}

// t' = t (1 - s) + s / K, from a distribution or from classes of which -1 ignores the position.
struct Labels {
  DataType type;
  double scale, share;

  Labels(DataType type_in, const ir::CrossEntropyAttributes& a, std::size_t classes)
      : type(type_in),
        scale(1 - a.smoothing),
        share(a.smoothing / static_cast<double>(a.classes > 0 ? extent(a.classes) : classes)) {}

  // The labels of one row, dense; false where the position is ignored.
  bool take(const Rows& rows, const std::byte* data, std::size_t at, float* to) const {
    if (type == DataType::kFloat32) {
      rows.gather(reinterpret_cast<const float*>(data), at, to);
    } else {
      const std::int64_t chosen = type == DataType::kInt64
                                      ? reinterpret_cast<const std::int64_t*>(data)[at]
                                      : reinterpret_cast<const std::int32_t*>(data)[at];
      if (chosen == -1) return false;
      for (std::size_t k = 0; k < rows.extent; ++k) {
        to[k] = k == static_cast<std::size_t>(chosen) ? 1.0f : 0.0f;
      }
    }
    for (std::size_t k = 0; k < rows.extent; ++k) {
      to[k] = static_cast<float>(static_cast<double>(to[k]) * scale + share);
    }
    return true;
  }
};

class CrossEntropy final : public Kernel {
 public:
  CrossEntropy(const ir::Graph& graph, const ir::Node& node)
      : rows_(graph.type(node.inputs[logits_of(node)]).shape, 1),
        labels_(graph.type(node.inputs[logits_of(node) + 1]).data_type,
                std::get<ir::CrossEntropyAttributes>(node.attributes), rows_.extent),
        node_(node),
        workspace_(workspace_of(graph, node)) {}

  std::size_t workspace_bytes() const override { return 2 * rows_.extent * sizeof(float); }

  void run(Pointers pointers) override {
    for (std::size_t at = 0; at < rows_.count(); ++at) {
      if (node_.op == ir::Op::softmax_cross_entropy) {
        forward(pointers, at);
      } else {
        gradient(pointers, at);
      }
    }
  }

 private:
  // loss = Σ t' (log Σ e^(x - max x) - (x - max x)); terms with t' = 0 add nothing, even where x is
  // not finite.
  void forward(Pointers pointers, std::size_t at) const {
    float* row = reinterpret_cast<float*>(pointers[workspace_]);
    float* labels = row + rows_.extent;
    const Strided x = rows_.row(read(pointers, node_.inputs[0]), at);
    rows_.gather(read(pointers, node_.inputs[0]), at, row);
    const auto largest = static_cast<double>(shift_by_largest(row, rows_.extent));
    exponentials(row, rows_.extent);
    const double logarithm = std::log(sum({row, 1}, rows_.extent));
    double loss = 0;
    if (labels_.take(rows_, pointers[node_.inputs[1]], at, labels)) {
      for (std::size_t k = 0; k < rows_.extent; ++k) {
        if (labels[k] == 0) continue;
        loss += static_cast<double>(labels[k]) *
                (logarithm - (static_cast<double>(*x.at(k)) - largest));
      }
    }
    write(pointers, node_.outputs[0])[at] = static_cast<float>(loss);
    write(pointers, node_.outputs[1])[at] = static_cast<float>(logarithm);
  }

  // dlogits = dloss (softmax Σ t' - t'), overwritten; 0 where dloss is 0, even if x is not finite
  void gradient(Pointers pointers, std::size_t at) const {
    float* row = reinterpret_cast<float*>(pointers[workspace_]);
    float* labels = row + rows_.extent;
    const float dloss = read(pointers, node_.inputs[0])[at];
    if (dloss != 0 && labels_.take(rows_, pointers[node_.inputs[2]], at, labels)) {
      rows_.gather(read(pointers, node_.inputs[1]), at, row);
      const float shift = -read(pointers, node_.inputs[3])[at];
      const auto total = static_cast<float>(sum({labels, 1}, rows_.extent));
      shift_by_largest(row, rows_.extent);
      vDSP_vsadd(row, 1, &shift, row, 1, rows_.extent);
      exponentials(row, rows_.extent);
      if (total == 0) vDSP_vclr(row, 1, rows_.extent);
      vDSP_vsmul(row, 1, &total, row, 1, rows_.extent);
      vDSP_vsub(labels, 1, row, 1, row, 1, rows_.extent);  // row - labels
      vDSP_vsmul(row, 1, &dloss, row, 1, rows_.extent);
    } else {
      vDSP_vclr(row, 1, rows_.extent);
    }
    rows_.scatter(row, at, write(pointers, node_.outputs[0]));
  }

  Rows rows_;
  Labels labels_;
  ir::Node node_;
  std::size_t workspace_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t labels = logits_of(node) + 1;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ir::Value& value = graph.value(node.inputs[i]);
    const DataType type = value.type.data_type;
    const bool classes = type == DataType::kInt32 || type == DataType::kInt64;
    if (type != DataType::kFloat32 && !(i == labels && classes)) {
      return Support::no(std::string("vForce: cross entropy over an operand of type ") +
                         name(type));
    }
    if (!value.layout.plain()) return Support::no("vForce: a layout that is not plain");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<CrossEntropy>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& cross_entropy_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::softmax_cross_entropy, supports, make},
      {ir::Op::softmax_cross_entropy_gradient, supports, make}};
  return entries;
}

}  // namespace traingraph::bnns
