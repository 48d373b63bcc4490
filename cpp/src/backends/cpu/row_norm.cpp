// Normalised rows of plain float32 tensors, and their gradient.
#include "backends/cpu/isa/row_norm.h"

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

constexpr std::int64_t kPartElements = 8192;
constexpr double kNanosecondsPerElement = 0.6;  // conversions to float64 and back

Support supports(const ir::Graph& graph, const ir::Node& node) {
  for (ir::ValueId id : node.inputs) {
    if (graph.type(id).data_type != DataType::kFloat32) {
      return Support::no("hand-written loops over rows take float32");
    }
  }
  return {};
}

class RowNorm final : public Kernel {
 public:
  RowNorm(const ir::Graph& graph, const ir::Node& node)
      : epsilon_(std::get<ir::RowNormAttributes>(node.attributes).epsilon),
        inputs_(node.inputs),
        outputs_(node.outputs) {
    const Shape& shape = graph.type(outputs_[0]).shape;
    const auto axis =
        static_cast<std::size_t>(std::get<ir::RowNormAttributes>(node.attributes).axis);
    for (std::size_t k = 0; k < shape.size(); ++k) (k < axis ? rows_ : count_) *= shape[k];
    rows_per_part_ = std::max<std::int64_t>(1, kPartElements / count_);
    threads_ = threads_for(kNanosecondsPerElement * static_cast<double>(rows_ * count_));
  }

  void run(Pointers pointers) override {
    const auto at = [pointers](ir::ValueId id) { return reinterpret_cast<float*>(pointers[id]); };
    const RowNormLoops& loops = *cpu::loops().row_norm;
    const float* const first = at(inputs_[0]);
    float* const result = at(outputs_[0]);
    parallel_for((rows_ + rows_per_part_ - 1) / rows_per_part_, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(rows_, (part + 1) * rows_per_part_);
      for (std::int64_t row = part * rows_per_part_; row < end; ++row) {
        const std::int64_t begin = row * count_;
        if (inputs_.size() == 2) {
          loops.gradient(first + begin, at(inputs_[1]) + begin, count_, epsilon_, result + begin);
        } else {
          loops.forward(first + begin, count_, epsilon_, result + begin, at(outputs_[1]) + row,
                        at(outputs_[2]) + row, at(outputs_[3]) + row);
        }
      }
    });
  }

 private:
  double epsilon_;
  std::vector<ir::ValueId> inputs_, outputs_;
  std::int64_t rows_ = 1, count_ = 1;
  std::int64_t rows_per_part_ = 1;
  int threads_ = 1;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<RowNorm>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& row_norm_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::row_norm, supports, make, nullptr, nullptr},
      KernelEntry{ir::Op::row_norm_gradient, supports, make, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
