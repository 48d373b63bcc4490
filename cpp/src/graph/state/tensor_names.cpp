#include "graph/state/tensor_names.h"

#include <utility>

#include <traingraph/loss.h>

#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

// Unless it has a name of this rank or above; one whose layer is gone is none.
void name(const TensorPtr& tensor, TensorPlace::Rank rank, std::function<std::string()> text) {
  if (tensor == nullptr) return;  // refused elsewhere
  TensorState& state = tensor->state();
  const std::lock_guard lock(state.host);
  if (state.place.rank >= rank && !state.place.text().empty()) return;
  state.place = {rank, std::move(text)};
}

}  // namespace

void name_by_place(const NodeRecord& node) {
  using enum TensorPlace::Rank;
  const auto by_layer = [&](const TensorPtr& tensor, TensorPlace::Rank rank,
                            const std::string& part) {
    name(tensor, rank, [of = std::weak_ptr<Layer>(node.layer), part] {
      const LayerPtr layer = of.lock();
      return layer == nullptr ? std::string()
                              : std::to_string(layer->id()) + "." + layer->label() + "." + part;
    });
  };
  for (const auto& [part, tensor] : node.layer->named_parameters()) {
    by_layer(tensor, kOwn, part);
  }
  // A loss holds them, but trains and saves none.
  if (const auto* const loss = dynamic_cast<const Loss*>(node.layer.get())) {
    by_layer(loss->weights(), kOwn, "weights");
  }
  for (std::size_t k = 0; k < node.results.size(); ++k) {
    by_layer(node.results[k], kOwn, k == 0 ? "result" : "result" + std::to_string(k + 1));
  }
  for (std::size_t k = 0; k < node.sources.size(); ++k) {
    by_layer(node.sources[k], kRead, "source[" + std::to_string(k) + "]");
  }
}

void name_by_declaration(const NamedTensors& tensors) {
  for (const auto& [declared, tensor] : tensors) {
    name(tensor, TensorPlace::kDeclared, [declared] { return declared; });
  }
}

}  // namespace traingraph
