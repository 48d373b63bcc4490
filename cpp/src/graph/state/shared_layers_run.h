// `SharedLayers::Run`, which `Graph::node` asks for the layer to add while shared layers are added.
#pragma once

#include <map>
#include <vector>

#include <traingraph/shared_layers.h>

namespace traingraph {

class SharedLayers::Run {
 public:
  // Of a graph that adds shared layers among others that are shared, `outer` are those.
  Run(std::vector<LayerPtr>& kept, Run* outer)
      : kept_(kept), outer_(outer), is_first_(kept.empty()) {}

  // The layer to add in place of this one.
  LayerPtr taken(const LayerPtr& given);
  // Whether layers may be another graph's.
  bool is_first() const { return is_first_; }
  // Raises ShapeError unless all kept layers were taken.
  void check_end() const;

 private:
  std::vector<LayerPtr>& kept_;
  Run* outer_;
  bool is_first_;
  std::size_t next_ = 0;                 // of kept_
  std::map<LayerPtr, LayerPtr> chosen_;  // by the layer that was given
};

}  // namespace traingraph
