// The largest or smallest element along an axis of plain tensors, and its place.
#include "backends/cpu/isa/extremum.h"

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (graph.type(node.inputs[0]).data_type == DataType::kFloat32) return {};
  return Support::no("hand-written loops compare float32");
}

constexpr std::int64_t kPartElements = 32768;
constexpr std::int64_t kPartColumns = 64;  // whole cache lines

class Extremum final : public Kernel {
 public:
  Extremum(const ir::Graph& graph, const ir::Node& node)
      : attributes_(std::get<ir::ExtremumAttributes>(node.attributes)),
        x_(node.inputs[0]),
        y_(node.outputs[0]),
        places_(node.outputs[1]) {
    const Shape& shape = graph.type(x_).shape;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const int axis = static_cast<int>(k);
      (axis < attributes_.axis ? outer_ : axis == attributes_.axis ? depth_ : inner_) *= shape[k];
    }
    const double bytes = 4.0 * static_cast<double>(outer_ * depth_ * inner_);
    threads_ = threads_for(nanoseconds_to_move(bytes));
  }

  // A unit of work is up to kPartColumns columns of one (depth, inner).
  void run(Pointers pointers) override {
    const float* const x = reinterpret_cast<const float*>(pointers[x_]);
    float* const y = reinterpret_cast<float*>(pointers[y_]);
    const std::int64_t blocks = (inner_ + kPartColumns - 1) / kPartColumns;
    const std::int64_t units = outer_ * blocks;
    const std::int64_t elements = depth_ * std::min(inner_, kPartColumns);
    const std::int64_t per_part =
        threads_ <= 1 ? units : std::max<std::int64_t>(1, kPartElements / elements);
    parallel_for((units + per_part - 1) / per_part, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(units, (part + 1) * per_part);
      for (std::int64_t unit = part * per_part; unit < end; ++unit) {
        const std::int64_t o = unit / blocks, first = unit % blocks * kPartColumns;
        const std::int64_t at = o * inner_ + first;
        loops().extremum->along(x + o * depth_ * inner_ + first, depth_, inner_,
                                std::min(kPartColumns, inner_ - first), attributes_.largest,
                                attributes_.numbers, y + at, pointers[places_] + 4 * at);
      }
    });
  }

 private:
  ir::ExtremumAttributes attributes_;
  ir::ValueId x_, y_, places_;
  std::int64_t outer_ = 1, depth_ = 1, inner_ = 1;
  int threads_ = 1;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Extremum>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& extremum_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::extremum, supports, make, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
