#include <traingraph/layer.h>

#include <atomic>

#include <traingraph/activation.h>
#include <traingraph/describe.h>

namespace traingraph {
namespace {

std::atomic<std::int64_t> next_layer_id{1};

}  // namespace

Layer::Layer(std::string label) : id_(next_layer_id++), label_(std::move(label)) {}
Layer::~Layer() = default;
std::string Layer::description() const { return label(); }

const ClassDescription& Layer::class_description() {
  static const ClassDescription description =
      Describing<Layer, Layer>("MLCLayer", "An operation of a network; belongs to one graph.")
          .property("layer_id", &Layer::id, "Unique in the process.")
          .settable("label", &Layer::label, &Layer::set_label, "A name for messages.")
          .settable("is_debugging_enabled", &Layer::is_debugging_enabled,
                    &Layer::set_debugging_enabled,
                    "Whether results and gradients stay readable under the option DEBUG_LAYERS.")
          .property("device_type", &Layer::device_type,
                    "The device that the layer was compiled for; None before.")
          .support(Activation::class_description().sample)
          .compared_by_identity()
          .repr([](const Layer& self) {
            return std::to_string(self.id()) + " '" + self.label() + "': " + self.description();
          });
  return description;
}

}  // namespace traingraph
