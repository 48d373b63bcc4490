#include "graph/state/tensor_names.h"

#include "runtime/memory/parameter_store.h"

namespace traingraph {

void name_by_place(const NodeRecord& node) {
  const auto name = [&](const TensorPtr& tensor, const std::string& part) {
    if (tensor == nullptr) return;
    const std::lock_guard lock(tensor->state().host);
    if (tensor->state().place != nullptr) return;
    tensor->state().place = [of = std::weak_ptr<Layer>(node.layer), part] {
      const LayerPtr layer = of.lock();
      return layer == nullptr ? std::string()
                              : std::to_string(layer->id()) + "." + layer->label() + "." + part;
    };
  };
  for (const auto& [part, tensor] : node.layer->named_parameters()) name(tensor, part);
  for (std::size_t k = 0; k < node.results.size(); ++k) {
    name(node.results[k], k == 0 ? "result" : "result" + std::to_string(k + 1));
  }
}

}  // namespace traingraph
