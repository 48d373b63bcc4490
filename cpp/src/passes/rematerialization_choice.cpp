// The choice of the forward values to rematerialize, so that the arena fits a limit.
#include <algorithm>
#include <limits>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// The readers of a value in one schedule. In the gradient phase they will read the copy, which
// stands where the first of them is.
struct Readers {
  std::size_t last_forward = 0;
  std::size_t first_gradient = kNever;
  std::size_t last_gradient = 0;
  bool others = false;  // updates, views of the forward phase, and results
};

bool contains(const std::vector<Rematerialized>& list, ValueId value) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Rematerialized& one) { return one.value == value; });
}

// One plan, and what it would free to rematerialize a value.
class Peak {
 public:
  Peak(const ir::Graph& graph, const VariantPlan& plan)
      : graph_(graph), plan_(plan), roots_(roots_of(graph)), readers_(graph.values.size()) {
    last_read_.assign(graph.values.size(), 0);
    for (std::size_t k = 0; k < plan.schedule.order.size(); ++k) list_reader(k);
    for (const Node& node : graph.nodes) {
      if (node.op == ir::Op::reshape) list_view(node);
      if (node.phase != ir::Phase::update) list_writes(node);
    }
    find_position();
  }

  // What frees the fewest bytes there that are enough, or else most, the first of equals, and what
  // it has to be made of; empty where nothing frees any.
  std::vector<Rematerialized> best(std::size_t enough) const {
    std::vector<Rematerialized> best;
    const auto is_better = [enough](std::size_t freed, std::size_t than) {
      return than < enough ? freed > than : freed >= enough && freed < than;
    };
    for (const Node& node : graph_.nodes) {
      if (!may_run_again(node)) continue;
      const ValueId value = node.outputs[0];
      const std::size_t freed = bytes_freed(value);
      if (!is_better(freed, best.empty() ? 0 : best.front().freed_bytes)) continue;
      std::vector<Rematerialized> found = {{value, freed}};
      if (add_operands(node, readers_[at(value)].first_gradient, found)) best = std::move(found);
    }
    return best;
  }

 private:
  static std::size_t at(ValueId value) { return static_cast<std::size_t>(value); }

  void list_reader(std::size_t position) {
    const Node& node = graph_.node(plan_.schedule.order[position]);
    for (ValueId input : node.inputs) {
      last_read_[at(roots_[at(input)])] = position;
      list_read(input, node.phase, position);
    }
  }

  // What reads a view reads its source.
  void list_read(ValueId value, ir::Phase phase, std::size_t position) {
    Readers& readers = readers_[at(value)];
    if (phase == ir::Phase::forward) readers.last_forward = position;
    if (phase == ir::Phase::gradient) {
      readers.first_gradient = std::min(readers.first_gradient, position);
      readers.last_gradient = position;
    }
    readers.others = readers.others || phase == ir::Phase::update;
    const NodeId producer = graph_.value(value).producer;
    if (producer == kNone || graph_.node(producer).op != ir::Op::reshape) return;
    list_read(graph_.node(producer).inputs[0], phase, position);
  }

  // One of the gradient phase shows the copy.
  void list_view(const Node& view) {
    const bool shows_copy =
        view.phase == ir::Phase::gradient && !graph_.value(view.outputs[0]).keep;
    if (!shows_copy) readers_[at(view.inputs[0])].others = true;
  }

  // Parameters that change before the update, such as running statistics.
  void list_writes(const Node& node) {
    for (ValueId output : node.outputs) {
      const ValueId target = graph_.value(output).writes;
      if (target != kNone) changing_.push_back(target);
    }
  }

  // Where the buffers in use have most bytes.
  void find_position() {
    std::vector<std::size_t> in_use(plan_.schedule.order.size() + 1, 0);
    for (const PlannedBuffer& buffer : plan_.arena.buffers) {
      for (std::size_t k = buffer.first; k <= buffer.last; ++k) in_use[k] += aligned(buffer.bytes);
    }
    position_ =
        static_cast<std::size_t>(std::max_element(in_use.begin(), in_use.end()) - in_use.begin());
  }

  // Ops that cost little beside what they read and write, and give one large result.
  static bool may_run_again(const Node& node) {
    if (node.phase != ir::Phase::forward) return false;
    const auto* normalization = std::get_if<ir::BatchNormAttributes>(&node.attributes);
    if (normalization != nullptr && normalization->coefficients == ir::Coefficients::alone) {
      return false;
    }
    return node.op == ir::Op::batch_norm ||
           (node.op == ir::Op::elementwise && node.outputs.size() == 1);
  }

  std::size_t bytes_freed(ValueId value) const {
    const ir::Value& v = graph_.value(value);
    const Readers& readers = readers_[at(value)];
    const int buffer = plan_.buffer_of[at(value)];
    if (buffer < 0 || v.keep || readers.others || readers.first_gradient == kNever) return 0;
    const PlannedBuffer& now = plan_.arena.buffers[static_cast<std::size_t>(buffer)];
    const bool in_use = now.first <= position_ && position_ <= now.last;
    const bool before = position_ <= std::max(now.first, readers.last_forward);
    const bool copied = readers.first_gradient <= position_ && position_ <= readers.last_gradient;
    // An unaliased buffer is in use from the first op to behind the last, whoever reads it.
    const bool unaliased = now.last > plan_.liveness[at(value)].last;
    return in_use && !before && !copied && !unaliased ? aligned(now.bytes) : 0;
  }

  // Whether a value is there at a position of the gradient phase without being kept for this, and
  // is what it was in the forward phase.
  bool exists(ValueId value, std::size_t position) const {
    const ValueId root = roots_[at(value)];
    switch (graph_.value(root).source) {
      case ir::Source::node:
        return plan_.liveness[at(root)].last >= position;
      case ir::Source::bound:
        return last_read_[at(root)] >= position;
      case ir::Source::parameter:
        return std::find(changing_.begin(), changing_.end(), root) == changing_.end();
      case ir::Source::step:
        return false;
      case ir::Source::constant:
        return true;
    }
    return false;
  }

  // Adds those of the op's operands that have to be rematerialized as well, such as what an
  // activation reads where it is no epilogue. False where that would need what is not there.
  bool add_operands(const Node& node, std::size_t position,
                    std::vector<Rematerialized>& found) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      if (exists(input, position)) return true;
      const NodeId producer = graph_.value(input).producer;
      if (producer == kNone || !may_run_again(graph_.node(producer))) return false;
      if (graph_.node(producer).outputs[0] != input) return false;
      if (contains(found, input)) return true;
      found.push_back({input, 0});
      return add_operands(graph_.node(producer), position, found);
    });
  }

  const ir::Graph& graph_;
  const VariantPlan& plan_;
  const std::vector<ValueId> roots_;
  std::vector<Readers> readers_;        // by value
  std::vector<std::size_t> last_read_;  // by root
  std::vector<ValueId> changing_;
  std::size_t position_ = 0;
};

KernelRoom room_of(const KernelRoom& room, const std::vector<NodeId>& origins) {
  KernelRoom result{{}, room.unaliased_result_bytes};
  for (NodeId origin : origins) {
    result.workspaces.push_back(room.workspaces[static_cast<std::size_t>(origin)]);
  }
  return result;
}

}  // namespace

Rematerialization choose_rematerialized(const ir::Graph& graph, const Backend& backend,
                                        const KernelRoom& room,
                                        const std::vector<ValueId>& gradients, bool apart,
                                        std::size_t arena_limit) {
  Rematerialization result;
  for (;;) {
    std::vector<NodeId> origins;
    const ir::Graph now = with_rematerialized(graph, backend, result.values, origins);
    const KernelRoom room_now = room_of(room, origins);
    VariantPlan largest = plan_variant(now, room_now, false, {});
    if (apart) {
      VariantPlan split = plan_variant(now, room_now, true, gradients);
      if (split.arena.bytes > largest.arena.bytes) largest = std::move(split);
    }
    result.arena_bytes = largest.arena.bytes;
    result.fits = result.arena_bytes <= arena_limit;
    if (result.fits) return result;
    const std::size_t enough = result.arena_bytes - arena_limit;
    const std::vector<Rematerialized> next = Peak(now, largest).best(enough);
    if (next.empty()) return result;
    for (const Rematerialized& one : next) {
      if (!contains(result.values, one.value)) result.values.push_back(one);
    }
  }
}

}  // namespace traingraph::passes
