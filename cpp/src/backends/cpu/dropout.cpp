// Dropout in float32 and 16 bits. A mask is a function of seed, step and element, so that parts
// need nothing of each other.
#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa/elements/dropout.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

class Dropout final : public Kernel {
 public:
  Dropout(const ir::Graph& graph, const ir::Node& node)
      : attributes_(std::get<ir::DropoutAttributes>(node.attributes)),
        x_(node.inputs[0]),
        step_(node.inputs[1]),
        first_row_(node.inputs.size() > 2 ? node.inputs[2] : ir::kNone),
        result_(node.outputs[0]),
        type_(graph.type(result_).data_type),
        elements_(graph.type(result_).elements()),
        threads_(threads_for(0.6 * static_cast<double>(elements_))) {
    if (first_row_ != ir::kNone) row_ = elements_ / graph.type(result_).shape[0];
  }

  void run(Pointers pointers) override {
    const auto number = [&](ir::ValueId id) {
      return *reinterpret_cast<const std::int64_t*>(pointers[id]);
    };
    const std::int64_t step = number(step_);
    const std::int64_t first = first_row_ == ir::kNone ? 0 : number(first_row_) * row_;
    const auto drop = loops().dropout->drop;
    parallel_for((elements_ + kPartElements - 1) / kPartElements, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(elements_, (part + 1) * kPartElements);
      std::int64_t at = part * kPartElements;
      if (!ir::is_half(type_)) {
        const float* const x = reinterpret_cast<const float*>(pointers[x_]);
        float* const y = reinterpret_cast<float*>(pointers[result_]);
        return drop(attributes_, step, first + at, x + at, y + at, end - at);
      }
      float tile[kTile];
      for (; at < end; at += kTile) {
        const std::int64_t n = std::min(kTile, end - at);
        widen(type_, pointers[x_] + 2 * at, tile, n);
        drop(attributes_, step, first + at, tile, tile, n);
        narrow(type_, tile, pointers[result_] + 2 * at, n);
      }
    });
  }

 private:
  static constexpr std::int64_t kPartElements = 16384, kTile = 1024;

  ir::DropoutAttributes attributes_;
  ir::ValueId x_, step_, first_row_, result_;
  DataType type_;
  std::int64_t elements_, row_ = 0;
  int threads_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const DataType type = graph.type(node.outputs[0]).data_type;
  if (type == DataType::kFloat32 || ir::is_half(type)) return {};
  return Support::no("vectorised masks are for float32 and 16 bits");
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Dropout>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& dropout_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::dropout, supports, make}};
  return entries;
}

}  // namespace traingraph::cpu
