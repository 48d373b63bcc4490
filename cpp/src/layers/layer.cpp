#include <traingraph/layer.h>

#include <atomic>

namespace traingraph {
namespace {

std::atomic<std::int64_t> next_layer_id{1};

}  // namespace

Layer::Layer(std::string label) : id_(next_layer_id++), label_(std::move(label)) {}
Layer::~Layer() = default;
std::string Layer::description() const { return label(); }

}  // namespace traingraph
