// The choice of the forward values to rematerialize, so that the arena fits a limit.
#include <algorithm>
#include <limits>
#include <set>

#include "passes/passes.h"
#include "runtime/threads/interruption.h"

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
      : graph_(graph),
        plan_(plan),
        roots_(alias_roots(graph)),
        readers_(graph.values.size()),
        taken_(graph.values.size(), false) {
    last_read_.assign(graph.values.size(), 0);
    for (std::size_t k = 0; k < plan.schedule.order.size(); ++k) list_reader(k);
    for (const Node& node : graph.nodes) {
      if (node.op == ir::Op::reshape) list_view(node);
      if (node.phase != ir::Phase::update) list_writes(node);
    }
    add_buffers();
  }

  // Of all buffers in use, where that is most: no plan has less.
  std::size_t bytes() const { return in_use_[position_]; }

  // As if what best() has found were rematerialized: the next answer is about what is left.
  void take(const std::vector<Rematerialized>& found) {
    for (const Rematerialized& one : found) taken_[at(one.value)] = true;
    const ValueId value = found.front().value;
    const Readers& readers = readers_[at(value)];
    const PlannedBuffer& buffer = buffer_of(value);
    for (std::size_t k = std::max(buffer.first, readers.last_forward) + 1;
         k < readers.first_gradient; ++k) {
      in_use_[k] -= aligned(buffer.bytes);
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
      if (taken_[at(value)]) continue;
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
      if (target != kNone) changing_.insert(target);
    }
  }

  void add_buffers() {
    const std::size_t positions = plan_.schedule.order.size() + 1;
    // What begins less what has ended, summed up: where it would go below 0, it comes back.
    in_use_.assign(positions + 1, 0);
    for (const PlannedBuffer& buffer : plan_.arena.buffers) {
      in_use_[buffer.first] += aligned(buffer.bytes);
      in_use_[buffer.last + 1] -= aligned(buffer.bytes);
    }
    for (std::size_t k = 1; k < positions; ++k) in_use_[k] += in_use_[k - 1];
    in_use_.pop_back();
    find_position();
  }

  // Where the buffers in use have most bytes.
  void find_position() {
    position_ = static_cast<std::size_t>(std::max_element(in_use_.begin(), in_use_.end()) -
                                         in_use_.begin());
  }

  const PlannedBuffer& buffer_of(ValueId value) const {
    return plan_.arena.buffers[static_cast<std::size_t>(plan_.buffer_of[at(value)])];
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
    if (plan_.buffer_of[at(value)] < 0 || v.keep || readers.others ||
        readers.first_gradient == kNever)
      return 0;
    const PlannedBuffer& now = buffer_of(value);
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
        return plan_.liveness[at(root)].last >= position && !taken_[at(root)];
      case ir::Source::bound:
        return last_read_[at(root)] >= position;
      case ir::Source::parameter:
        return !changing_.contains(root);
      case ir::Source::step:  // a gradient pass has the numbers of its forward pass
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
  std::set<ValueId> changing_;
  std::vector<bool> taken_;          // by value
  std::vector<std::size_t> in_use_;  // bytes by position
  std::size_t position_ = 0;
};

KernelRoom room_of(const KernelRoom& room, const std::vector<NodeId>& origins) {
  KernelRoom result{{}, room.unaliased_result_bytes, 0, room.sums_go_on};
  for (NodeId origin : origins) {
    result.workspaces.push_back(room.workspaces[static_cast<std::size_t>(origin)]);
  }
  return result;
}

class Choice {
 public:
  Choice(const ir::Graph& graph, const Backend& backend, const KernelRoom& room,
         const std::vector<ValueId>& gradients, bool apart, std::size_t limit)
      : graph_(graph),
        backend_(backend),
        room_(room),
        gradients_(gradients),
        apart_(apart),
        limit_(limit) {}

  // Which values follow one after another does not depend on the limit: so what one limit is taken
  // by is taken by each larger one, too, and the least is that of the best try. What steps alone
  // need is also looked for among the tries for phases apart.
  Rematerialization choose() {
    least_.arena_bytes = kNever;
    if (!follow(apart_) && !apart_) follow(true);
    return least_;
  }

 private:
  struct Try {
    ir::Graph graph;
    VariantPlan largest;    // of those that were asked for
    std::size_t bytes = 0;  // what the limit is for
  };

  Try planned(const std::vector<Rematerialized>& values, bool with_split) const {
    std::vector<NodeId> origins;
    Try result{with_rematerialized(graph_, backend_, values, origins), {}, 0};
    const KernelRoom room = room_of(room_, origins);
    result.largest = plan_variant(result.graph, room, false, {});
    result.bytes = result.largest.arena.bytes;
    if (!with_split) return result;
    VariantPlan phases = plan_variant(result.graph, room, true, gradients_);
    if (apart_) result.bytes = std::max(result.bytes, phases.arena.bytes);
    if (phases.arena.bytes > result.largest.arena.bytes) result.largest = std::move(phases);
    return result;
  }

  bool follow(bool with_split) {
    std::vector<Rematerialized> values;
    Try now = planned(values, with_split);
    for (note(values, now);; check_compilation()) {
      if (least_.fits) return true;
      Peak peak(now.graph, now.largest);
      const std::vector<Rematerialized> before = values;
      const std::vector<Rematerialized> small = peak.best(now.bytes - limit_);
      if (!add_some(peak, values)) return false;
      now = planned(values, with_split);
      note(values, now);
      if (!least_.fits || small.empty()) continue;
      // One small value may do as well as the last ones that were taken.
      std::vector<Rematerialized> smaller = before;
      add(small, smaller);
      const bool is_other =
          smaller.size() < values.size() || small.front().value != values[before.size()].value;
      if (is_other && smaller.size() <= values.size()) {
        note(smaller, planned(smaller, with_split));
      }
    }
  }

  // One value after another, and more at once where there are many already: each try is a new plan.
  bool add_some(Peak& peak, std::vector<Rematerialized>& values) const {
    constexpr std::size_t kOneByOne = 32;
    const std::size_t most = values.size() < kOneByOne ? 1 : values.size() / 4;
    for (std::size_t k = 0; k < most && (k == 0 || peak.bytes() > limit_); ++k) {
      const std::vector<Rematerialized> next = peak.best(kNever);
      if (next.empty()) return k > 0;
      add(next, values);
      peak.take(next);
    }
    return true;
  }

  static void add(const std::vector<Rematerialized>& added, std::vector<Rematerialized>& values) {
    for (const Rematerialized& one : added) {
      if (!contains(values, one.value)) values.push_back(one);
    }
  }

  void note(const std::vector<Rematerialized>& values, const Try& one) {
    const bool fits = one.bytes <= limit_;
    if (!fits && one.bytes >= least_.arena_bytes) return;
    if (least_.fits && !fits) return;
    least_ = {values, one.bytes, fits};
  }

  const ir::Graph& graph_;
  const Backend& backend_;
  const KernelRoom& room_;
  const std::vector<ValueId>& gradients_;
  const bool apart_;
  const std::size_t limit_;
  Rematerialization least_;
};

}  // namespace

Rematerialization choose_rematerialized(const ir::Graph& graph, const Backend& backend,
                                        const KernelRoom& room,
                                        const std::vector<ValueId>& gradients, bool apart,
                                        std::size_t arena_limit) {
  return Choice(graph, backend, room, gradients, apart, arena_limit).choose();
}

}  // namespace traingraph::passes
