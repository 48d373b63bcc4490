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

  // While one lives on this thread, runs count for as long as it does, and beyond that if they are
  // kept. Layers of which no run counts any more are dropped, and the next run is the first again.
  class TRAINGRAPH_API Trial {
   public:
    Trial();
    ~Trial();
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;
    // From now on they count as what this trial is a part of does.
    void keep();

   private:
    friend class SharedLayers;
    struct Runs;
    std::unique_ptr<Runs> runs_;
  };

  // What `add` returns. Raises ShapeError where it makes other layers than at its first run. One
  // that raises, or in which another one does, leaves all shared layers as they were.
  TensorPtr run(const GraphPtr& graph, const std::function<TensorPtr()>& add);
  // In the order of the first run; empty before it.
  std::vector<LayerPtr> layers() const;

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
};

}  // namespace traingraph
