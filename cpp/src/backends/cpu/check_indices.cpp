// The check that indices are in range: the first one outside, whichever thread finds it.
#include <algorithm>
#include <atomic>

#include "backends/cpu/cpu.h"
#include "backends/cpu/element_size.h"
#include "backends/cpu/isa/elements/data_movement.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

// indices [, found] → found: see ops/indexing.cpp.
class CheckIndices final : public Kernel {
 public:
  CheckIndices(const ir::Graph& graph, const ir::Node& node)
      : attributes_(std::get<ir::IndexCheckAttributes>(node.attributes)),
        indices_(node.inputs[0]),
        before_(node.inputs.size() > 1 ? node.inputs[1] : ir::kNone),
        result_(node.outputs[0]),
        wide_(graph.type(indices_).data_type == DataType::kInt64),
        count_(graph.type(indices_).elements()),
        threads_(threads_for(nanoseconds_to_move(8.0 * static_cast<double>(count_)))) {}

  void run(Pointers pointers) override {
    auto* const found = reinterpret_cast<std::int64_t*>(pointers[result_]);
    std::fill_n(found, 3, std::int64_t{-1});
    const auto* before =
        before_ == ir::kNone ? found : reinterpret_cast<const std::int64_t*>(pointers[before_]);
    if (before[0] >= 0) {
      std::copy_n(before, 3, found);
      return;
    }
    const DataMovementLoops& of = *loops().data_movement;
    if (wide_) {
      look(reinterpret_cast<const std::int64_t*>(pointers[indices_]), of.first_outside_int64,
           found);
    } else {
      look(reinterpret_cast<const std::int32_t*>(pointers[indices_]), of.first_outside_int32,
           found);
    }
  }

 private:
  template <class Index, class First>
  void look(const Index* indices, First first_outside, std::int64_t* found) const {
    constexpr std::int64_t kPartElements = 65536;
    std::atomic<std::int64_t> first{count_};
    parallel_for((count_ + kPartElements - 1) / kPartElements, threads_, [&](std::int64_t part) {
      const std::int64_t begin = part * kPartElements;
      const std::int64_t n = std::min(kPartElements, count_ - begin);
      const std::int64_t at =
          first_outside(indices + begin, n, attributes_.lowest, attributes_.end);
      if (at == n) return;
      std::int64_t least = first.load();
      while (begin + at < least && !first.compare_exchange_weak(least, begin + at)) {
      }
    });
    const std::int64_t at = first.load();
    if (at == count_) return;
    found[0] = attributes_.number;
    found[1] = at;
    found[2] = static_cast<std::int64_t>(indices[at]);
  }

  ir::IndexCheckAttributes attributes_;
  ir::ValueId indices_, before_, result_;
  bool wide_;
  std::int64_t count_;
  int threads_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<CheckIndices>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& check_indices_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::check_indices, supports_any_type, make}};
  return entries;
}

}  // namespace traingraph::cpu
