// The gradient of a convolution's weights over many samples, in parts.
#include <algorithm>

#include "backends/cpu/onednn/convolution_cut.h"

namespace traingraph::cpu {
namespace {

// oneDNN adds the samples to the weights' gradient one by one, in float32, so that its error grows
// with their number. Beyond this many they go in parts, whose sums are added in float64.
constexpr std::int64_t kMostSamples = 1024;

}  // namespace

bool has_many_samples(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::convolution_gradient_weights) return false;
  if (graph.type(node.inputs[0]).shape[0] <= kMostSamples) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ir::ValueId id) {
    const ir::Layout& layout = graph.value(id).layout;
    const bool first = layout.order.empty() || layout.order[0] == 0;
    return first && std::none_of(layout.blocks.begin(), layout.blocks.end(),
                                 [](const ir::Layout::Block& block) { return block.axis == 0; });
  });
}

namespace {

class SamplesInParts final : public Kernel {
 public:
  SamplesInParts(const ir::Graph& graph, const ir::Node& node, MakeKernel make)
      : y_(node.inputs[0]),
        x_(node.inputs[1]),
        weights_(node.outputs[0]),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    const std::int64_t samples = graph.type(y_).shape[0];
    parts_ = (samples + kMostSamples - 1) / kMostSamples;
    const std::int64_t each = (samples + parts_ - 1) / parts_;
    part_ = make_part(graph, node, make, each, 1);
    last_ = make_part(graph, node, make, samples - (parts_ - 1) * each, 1);
    const auto bytes_of = [&](ir::ValueId id, std::int64_t count) {
      ir::Type type = graph.type(id);
      if (count > 0) type.shape[0] = count;
      return ir::storage_bytes(type, graph.value(id).layout);
    };
    y_step_ = bytes_of(y_, each);
    x_step_ = bytes_of(x_, each);
    count_ = bytes_of(weights_, 0) / sizeof(float);
    own_bytes_ = (count_ * (sizeof(double) + sizeof(float)) + 63) / 64 * 64;
  }

  std::size_t workspace_bytes() const override {
    return own_bytes_ + std::max(part_->workspace_bytes(), last_->workspace_bytes());
  }

  void run(Pointers pointers) override {
    auto* const sums = reinterpret_cast<double*>(pointers[workspace_]);
    auto* const some = reinterpret_cast<float*>(sums + count_);
    std::fill_n(sums, count_, 0.0);
    for (std::int64_t k = 0; k < parts_; ++k) {
      const auto at = static_cast<std::size_t>(k);
      std::byte* const addresses[] = {pointers[y_] + at * y_step_, pointers[x_] + at * x_step_,
                                      reinterpret_cast<std::byte*>(some),
                                      pointers[workspace_] + own_bytes_};
      (k + 1 < parts_ ? part_ : last_)->run(addresses);
      for (std::size_t i = 0; i < count_; ++i) sums[i] += static_cast<double>(some[i]);
    }
    auto* const weights = reinterpret_cast<float*>(pointers[weights_]);
    for (std::size_t i = 0; i < count_; ++i) weights[i] = static_cast<float>(sums[i]);
  }

 private:
  ir::ValueId y_, x_, weights_;
  std::size_t workspace_;
  std::int64_t parts_;
  std::unique_ptr<Kernel> part_, last_;
  std::size_t y_step_, x_step_, count_, own_bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_in_parts(const ir::Graph& graph, const ir::Node& node,
                                      MakeKernel make) {
  return std::make_unique<SamplesInParts>(graph, node, make);
}

}  // namespace traingraph::cpu
