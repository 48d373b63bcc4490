// Choice between two operands by a condition, all of them broadcast; elements of any type are moved
// as they are.
#include <bit>

#include "backends/cpu/cpu.h"
#include "backends/cpu/element_size.h"
#include "backends/cpu/isa/elements/data_movement.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/operand_tile.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

// T: unsigned integers of the elements' size.
template <class T>
class Select final : public Kernel {
 public:
  Select(const ir::Graph& graph, const ir::Node& node)
      : where_not_(std::get<ir::SelectAttributes>(node.attributes).where_not),
        inputs_(node.inputs),
        result_(node.outputs[0]),
        elements_(graph.type(result_).elements()) {
    for (ir::ValueId id : inputs_) {
      views_.push_back(view_of(graph.type(id).shape, graph.type(result_).shape, {}));
    }
    if (inputs_.size() < 3) views_.push_back(view_of({}, graph.type(result_).shape, {}));  // a zero
    threads_ = threads_for(nanoseconds_to_move(static_cast<double>(3 * sizeof(T) + 1) *
                                               static_cast<double>(elements_)));
  }

  void run(Pointers pointers) override {
    static constexpr T kZero = 0;
    const auto loop = loops().data_movement->select[std::countr_zero(sizeof(T))];
    const T* const second =
        inputs_.size() > 2 ? reinterpret_cast<const T*>(pointers[inputs_[2]]) : &kZero;
    parallel_for(parts_of_tiles(elements_), threads_, [&](std::int64_t part) {
      Tile<std::uint8_t> condition(views_[0],
                                   reinterpret_cast<const std::uint8_t*>(pointers[inputs_[0]]));
      Tile<T> x(views_[1], reinterpret_cast<const T*>(pointers[inputs_[1]]));
      Tile<T> y(views_[2], second);
      T* const result = reinterpret_cast<T*>(pointers[result_]);
      for_each_tile(elements_, part, [&](std::int64_t begin, std::int64_t count) {
        loop(condition.at(begin, count), where_not_, x.at(begin, count), y.at(begin, count),
             result + begin, count);
      });
    });
  }

 private:
  bool where_not_;
  std::vector<ir::ValueId> inputs_;
  ir::ValueId result_;
  std::int64_t elements_;
  std::vector<OperandView> views_;  // condition, x, y
  int threads_ = 1;
};

}  // namespace

const std::vector<KernelEntry>& select_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::select, supports_any_type, make_by_size<Select>}};
  return entries;
}

}  // namespace traingraph::cpu
