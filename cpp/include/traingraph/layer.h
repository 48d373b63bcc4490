// `Layer`, the base class of all layers: identity, parameters, and the ops that it emits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/mutex.h>
#include <traingraph/tensor.h>
#include <traingraph/types.h>

namespace traingraph {

class Emitter;
struct ClassDescription;
class Graph;

// The unit that users compose. A layer belongs to one graph.
class TRAINGRAPH_API Layer : public std::enable_shared_from_this<Layer> {
 public:
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Unique per process, given at creation.
  std::int64_t id() const { return id_; }
  std::string label() const { return label_.get(); }
  void set_label(std::string label) { label_.set(std::move(label)); }
  bool is_debugging_enabled() const { return is_debugging_enabled_; }
  void set_debugging_enabled(bool enabled) { is_debugging_enabled_ = enabled; }
  // Where the layer was compiled for; nothing before.
  std::optional<DeviceType> device_type() const { return device_type_; }

  // What updates may change; a graph freezes them with disable_update.
  virtual std::vector<TensorParameter*> parameters() { return {}; }
  // Parameters and running statistics by their names in checkpoints, those of the properties that
  // return them. A layer with parameters() gives all of them here; absent ones are null.
  virtual std::vector<std::pair<std::string, TensorPtr>> named_parameters() const { return {}; }
  static const ClassDescription& class_description();
  // One line: kind and the attributes that matter.
  virtual std::string description() const;
  // Writes the layer as ops; raises a typed error when the sources do not fit.
  virtual void emit(Emitter& emitter) const = 0;

 protected:
  explicit Layer(std::string label);

 private:
  friend class Graph;
  friend struct GraphState;
  std::int64_t id_;
  Label label_;
  bool is_debugging_enabled_ = false;
  std::optional<DeviceType> device_type_;
  std::uint64_t owner_ = 0;  // number of the one graph this layer belongs to; 0: none yet
};

using LayerPtr = std::shared_ptr<Layer>;

// Whether the device has kernels for this layer over such sources, forward and gradient. False too
// where the layer refuses their data type; other mistakes raise.
TRAINGRAPH_API bool has_kernels(const Layer& layer, const std::vector<TensorDescriptor>& sources,
                                const Device& device);

}  // namespace traingraph
