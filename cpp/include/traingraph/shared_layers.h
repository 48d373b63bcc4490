// `SharedLayers`, the layers that a part of several graphs consists of.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/graph.h>

namespace traingraph {

// The layers with parameters that a function adds to a graph. Run again, for that graph or another
// one, it adds these in place of those that it makes anew. They are what several graphs may have.
class TRAINGRAPH_API SharedLayers {
 public:
  class Run;

  SharedLayers();
  ~SharedLayers();
  SharedLayers(const SharedLayers&) = delete;
  SharedLayers& operator=(const SharedLayers&) = delete;

  // What `add` returns. Raises ShapeError where it makes other layers than at its first run.
  TensorPtr run(const GraphPtr& graph, const std::function<TensorPtr()>& add);
  // In the order of the first run; empty before it.
  std::vector<LayerPtr> layers() const;

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace traingraph
