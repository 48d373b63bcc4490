// Which values of a run stay images, and how often each is read: decided once per order.
#include "backends/metal/device/image_plan.h"

#include <algorithm>

namespace traingraph::metal {
namespace {

// What the kernels of one run do with the images of a value.
struct Use {
  int operands = 0;     // so many take them
  int reads = 0;        // and so often they read each image
  bool made = false;    // one gives them
  bool wanted = false;  // one cannot do without
  std::optional<std::size_t> slot;
};

// By value.
class Uses {
 public:
  explicit Uses(std::size_t values) : uses_(values) {}
  Use& operator[](ir::ValueId value) { return uses_[static_cast<std::size_t>(value)]; }

  void add(const ImageOperands& operands) {
    for (const auto& source : operands.sources) {
      Use& use = (*this)[source.value];
      ++use.operands;
      use.reads += source.reads;
      use.wanted |= operands.always;
    }
    for (ir::ValueId result : operands.results) (*this)[result].made = true;
  }

 private:
  std::vector<Use> uses_;
};

}  // namespace

ImageStep step_alone(const ImageOperands& operands) {
  ImageStep step;
  std::size_t slot = 0;
  for (const auto& source : operands.sources) step.sources.push_back({slot++, source.reads});
  for (std::size_t k = 0; k < operands.results.size(); ++k) {
    step.results.push_back({slot++, 1, true});
  }
  return step;
}

ImagePlanner::ImagePlanner(const ir::Graph& graph)
    : operands_(graph.values.size(), 0), outside_(graph.values.size(), false) {
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    outside_[v] = graph.values[v].keep || graph.values[v].writes != ir::kNone;
  }
  for (const ir::Node& node : graph.nodes) {
    for (ir::ValueId input : node.inputs) ++operands_[static_cast<std::size_t>(input)];
  }
}

ImagePlan ImagePlanner::plan(const ir::NodeId* order, std::size_t count,
                             const std::vector<std::unique_ptr<Kernel>>& kernels) const {
  const auto images_of = [&](std::size_t k) {
    return kernels[static_cast<std::size_t>(order[k])]->images();
  };
  Uses uses(operands_.size());
  // Whether any but `takers` of the value's operands needs its bytes.
  const auto in_memory = [&](ir::ValueId value, int takers) {
    const auto v = static_cast<std::size_t>(value);
    return outside_[v] || operands_[v] > takers;
  };
  std::vector<const ImageOperands*> chosen(count, nullptr);
  for (std::size_t k = 0; k < count; ++k) {
    const ImageOperands* images = images_of(k);
    if (images == nullptr || !images->always) continue;
    chosen[k] = images;
    uses.add(*images);
  }
  // Those that can do with memory: in order, so that one of them follows another.
  for (std::size_t k = 0; k < count; ++k) {
    const ImageOperands* images = images_of(k);
    if (images == nullptr || images->always) continue;
    const bool given = std::any_of(images->sources.begin(), images->sources.end(),
                                   [&](const ImageOperands::Source& source) {
                                     const Use& use = uses[source.value];
                                     return use.made && !in_memory(source.value, use.operands + 1);
                                   });
    const bool wanted = std::any_of(images->results.begin(), images->results.end(),
                                    [&](ir::ValueId result) { return uses[result].wanted; });
    if (!given && !wanted) continue;
    chosen[k] = images;
    uses.add(*images);
  }

  ImagePlan plan;
  plan.steps.resize(count);
  for (std::size_t k = 0; k < count; ++k) {
    if (chosen[k] == nullptr) continue;
    ImageStep& step = plan.steps[k].emplace();
    for (const auto& source : chosen[k]->sources) {
      Use& use = uses[source.value];
      const int reads = use.slot ? 0 : use.reads;
      if (!use.slot) use.slot = plan.slots++;
      step.sources.push_back({*use.slot, reads});
    }
    for (ir::ValueId result : chosen[k]->results) {
      Use& use = uses[result];
      use.slot = plan.slots++;
      // An image that nobody reads would never be given back.
      const bool to_memory = in_memory(result, use.operands) || use.reads == 0;
      step.results.push_back({*use.slot, use.reads + (to_memory ? 1 : 0), to_memory});
    }
  }
  return plan;
}

}  // namespace traingraph::metal
