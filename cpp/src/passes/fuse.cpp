// Fusion. Elementwise ops join their only consumer; what remains of a chain moves into the op that
// produces its first operand when the backend takes it as an epilogue (convolution + bias +
// activation, batch norm + add + activation), or into the batch-norm gradient that consumes it as a
// prologue. Everything works on one mutable list of nodes; order is restored at the end.
#include <algorithm>

#include "ir/cast.h"
#include "ir/epilogue.h"
#include "ir/scalar_simplify.h"
#include "ops/op.h"
#include "passes/living_nodes.h"
#include "passes/passes.h"
#include "passes/result_types.h"
#include "runtime/threads/interruption.h"

namespace traingraph::passes {
namespace {

using ir::ElementwiseAttributes;
using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ScalarList;
using ir::ValueId;

// A list longer than this is not joined further: registers would no longer stay in cache.
constexpr int kMaxRegisters = 64;

class Fusion {
 public:
  Fusion(const ir::Graph& graph, const Backend& backend)
      : nodes_(graph), graph_(nodes_.graph()), backend_(backend) {}

  ir::Graph run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      check_compilation();
      join_producers(static_cast<NodeId>(n));
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      move_into_producer(static_cast<NodeId>(n));
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      read_through_casts(static_cast<NodeId>(n));
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) take_prologue(static_cast<NodeId>(n));
    return nodes_.sorted();
  }

 private:
  bool is_elementwise(NodeId id) const {
    return id != kNone && nodes_.lives(id) && graph_.node(id).op == Op::elementwise;
  }

  // A reshape of a constant is the same constant, so it may be looked through.
  NodeId constant_behind(NodeId id) const {
    NodeId behind = id;
    while (behind != kNone && graph_.node(behind).op == Op::reshape) {
      behind = graph_.value(graph_.node(behind).inputs[0]).producer;
    }
    const bool constant = is_elementwise(behind) && graph_.node(behind).inputs.empty();
    return constant ? behind : id;
  }

  // Joins elementwise producers into node `id` until none fits.
  void join_producers(NodeId id) {
    if (!is_elementwise(id)) return;
    for (std::size_t i = 0; i < graph_.node(id).inputs.size();) {
      if (!join(id, i)) ++i;
    }
  }

  bool join(NodeId consumer_id, std::size_t input) {
    Node& consumer = graph_.node(consumer_id);
    const ValueId value = consumer.inputs[input];
    const NodeId producer_id = constant_behind(graph_.value(value).producer);
    if (!is_elementwise(producer_id)) return false;
    const Node& producer = graph_.node(producer_id);
    auto& consumer_attributes = std::get<ElementwiseAttributes>(consumer.attributes);
    const auto& producer_attributes = std::get<ElementwiseAttributes>(producer.attributes);
    const bool constant = producer.inputs.empty() && producer.outputs.size() == 1;
    if (!constant) {
      if (producer.phase != consumer.phase || producer.outputs.size() != 1) return false;
      if (graph_.value(value).keep || graph_.value(value).writes != kNone) return false;
      if (nodes_.uses(value) != std::count(consumer.inputs.begin(), consumer.inputs.end(), value)) {
        return false;
      }
      // A smaller producer would be computed once per broadcast element.
      if (graph_.type(value).shape != graph_.type(consumer.outputs[0]).shape) return false;
    }
    if (consumer_attributes.list.registers() + producer_attributes.list.registers() >
        kMaxRegisters) {
      return false;
    }
    // What is between them is computed in float32, or in float64 alone.
    if (is_wide(value) != is_wide(consumer.outputs[0])) return false;
    for (ValueId operand : producer.inputs) {
      if (is_wide(operand) != is_wide(value)) return false;
    }
    // The result's shape must not depend on the operand that disappears.
    const ir::Type& type = graph_.type(consumer.outputs[0]);
    ElementwiseAttributes attributes;
    attributes.shape = type.shape;
    attributes.shape_batched = type.batched;
    attributes.list = ir::simplified(ir::joined(
        producer_attributes.list, 0, consumer_attributes.list, static_cast<int>(input), {}));
    std::vector<ValueId> inputs(producer.inputs);
    for (std::size_t k = 0; k < consumer.inputs.size(); ++k) {
      if (k != input) inputs.push_back(consumer.inputs[k]);
    }
    merge_repeated(attributes.list, inputs);
    drop_unread(attributes.list, inputs);
    attributes.result_types = stated_types(graph_, inputs, consumer.outputs);
    Node both = consumer;
    both.inputs = std::move(inputs);
    both.attributes = std::move(attributes);
    if (!backend_.supports(graph_, both).yes) return false;
    std::swap(consumer, both);
    nodes_.note_inputs(consumer_id, both.inputs);
    nodes_.bury(value);
    return true;
  }

  bool is_wide(ValueId value) const { return type_of(value) == DataType::kFloat64; }
  DataType type_of(ValueId value) const { return graph_.type(value).data_type; }

  // Epilogues and prologues are of one type, so that a kernel needs no more than that.
  bool have_type_of(const std::vector<ValueId>& operands, ValueId value) const {
    return std::all_of(operands.begin(), operands.end(),
                       [&](ValueId operand) { return type_of(operand) == type_of(value); });
  }

  static void drop_unread(ScalarList& list, std::vector<ValueId>& inputs) {
    std::vector<int> kept;
    list = ir::without_dead_code(list, kept);
    std::vector<ValueId> read;
    for (int k : kept) read.push_back(inputs[static_cast<std::size_t>(k)]);
    inputs = std::move(read);
  }

  // The same value read twice becomes one input.
  static void merge_repeated(ScalarList& list, std::vector<ValueId>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t j = i + 1; j < inputs.size(); ++j) {
        if (inputs[i] != inputs[j]) continue;
        auto renumber = [&](int& reg) {
          if (reg == static_cast<int>(j)) {
            reg = static_cast<int>(i);
          } else if (reg > static_cast<int>(j)) {
            --reg;
          }
        };
        for (ir::Instruction& instruction : list.code) {
          renumber(instruction.x);
          renumber(instruction.y);
        }
        for (int& result : list.results) renumber(result);
        --list.inputs;
        inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(j));
        --j;
      }
    }
  }

  static ScalarList* epilogue_of(Node& node) {
    const auto epilogue = ops::definition(node.op).properties.epilogue;
    return epilogue == nullptr ? nullptr : epilogue(node.attributes);
  }

  void move_into_producer(NodeId id) {
    if (!is_elementwise(id)) return;
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      if (move_into(id, i)) return;
    }
  }

  bool move_into(NodeId id, std::size_t input) {
    Node& chain = graph_.node(id);
    const ValueId value = chain.inputs[input];
    const NodeId producer_id = graph_.value(value).producer;
    if (producer_id == kNone || chain.outputs.size() != 1) return false;
    Node& producer = graph_.node(producer_id);
    ScalarList* epilogue = epilogue_of(producer);
    if (epilogue == nullptr || producer.outputs[0] != value || !epilogue->empty()) return false;
    if (producer.phase != chain.phase || graph_.value(value).keep || nodes_.uses(value) != 1)
      return false;
    if (graph_.type(value).shape != graph_.type(chain.outputs[0]).shape) return false;
    if (graph_.value(chain.outputs[0]).writes != kNone) return false;
    // The list with the producer's result as input 0.
    std::vector<ValueId> extra;
    for (std::size_t k = 0; k < chain.inputs.size(); ++k) {
      if (k == input) continue;
      if (nodes_.depends_on(chain.inputs[k], producer_id)) return false;
      extra.push_back(chain.inputs[k]);
    }
    if (!have_type_of({chain.outputs[0]}, value) || !have_type_of(extra, value)) return false;
    const ScalarList list =
        with_first(std::get<ElementwiseAttributes>(chain.attributes).list, static_cast<int>(input));
    if (!backend_.fuses(graph_, producer, list, extra)) return false;

    *epilogue = list;
    const std::vector<ValueId> before = producer.inputs;
    producer.inputs.insert(producer.inputs.end(), extra.begin(), extra.end());
    nodes_.note_inputs(producer_id, before);
    const ValueId result = chain.outputs[0];
    producer.outputs[0] = result;
    graph_.value(result).producer = producer_id;
    nodes_.kill(id);
    nodes_.wait_like(producer_id, id);
    return true;
  }

  // The same list with input `first` moved to the front.
  static ScalarList with_first(ScalarList list, int first) {
    auto renumber = [&](int& reg) {
      if (reg == first) {
        reg = 0;
      } else if (reg >= 0 && reg < first) {
        ++reg;
      }
    };
    for (ir::Instruction& instruction : list.code) {
      renumber(instruction.x);
      renumber(instruction.y);
    }
    for (int& result : list.results) renumber(result);
    return list;
  }

  // An update reads a gradient of 16 bits as it is. The cast stays for who asks for the gradient.
  void read_through_casts(NodeId id) {
    if (!is_elementwise(id) || graph_.node(id).phase != ir::Phase::update) return;
    Node& update = graph_.node(id);
    const std::vector<ValueId> before = update.inputs;
    for (ValueId& input : update.inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (!is_elementwise(producer)) continue;
      const Node& cast = graph_.node(producer);
      if (!ir::is_cast(std::get<ElementwiseAttributes>(cast.attributes))) continue;
      const ValueId source = cast.inputs[0];
      const bool widens = ir::is_half(type_of(source)) && type_of(input) == DataType::kFloat32;
      if (widens && graph_.type(source).shape == graph_.type(input).shape) input = source;
    }
    nodes_.note_inputs(id, before);
    std::get<ElementwiseAttributes>(update.attributes).result_types =
        stated_types(graph_, update.inputs, update.outputs);
  }

  void take_prologue(NodeId id) {
    if (!nodes_.lives(id)) return;
    Node& node = graph_.node(id);
    if (node.op != Op::batch_norm_gradient) return;
    const ValueId value = node.inputs[0];
    const NodeId chain_id = graph_.value(value).producer;
    if (!is_elementwise(chain_id)) return;
    const Node& chain = graph_.node(chain_id);
    auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
    if (!attributes.epilogue.empty() || chain.outputs.size() != 1) return;
    if (chain.inputs.empty()) return;  // constants
    if (chain.phase != node.phase || graph_.value(value).writes != kNone) return;
    const std::vector<ValueId> extra(chain.inputs.begin() + 1, chain.inputs.end());
    const ScalarList& list = std::get<ElementwiseAttributes>(chain.attributes).list;
    if (graph_.type(chain.inputs[0]).shape != graph_.type(value).shape) return;
    if (!have_type_of(chain.inputs, value)) return;
    const bool read_here_alone = !graph_.value(value).keep && nodes_.uses(value) == 1;
    if (!read_here_alone || !backend_.fuses(graph_, node, list, extra)) {
      if (!gives(node, chain_id, list, extra)) return;
      attributes.gives_prologue = true;
      nodes_.add_result(id, value);
    }
    const std::vector<ValueId> before = node.inputs;
    attributes.epilogue = list;
    node.inputs[0] = chain.inputs[0];
    node.inputs.insert(node.inputs.end(), extra.begin(), extra.end());
    nodes_.kill(chain_id);
    const ValueId beta = beta_of_relu(node);
    if (beta != kNone) node.inputs.push_back(beta);
    nodes_.note_inputs(id, before);
  }

  // Whether the batch_norm_gradient may take the chain as its prologue and give its result to
  // others.
  bool gives(const Node& node, NodeId chain, const ScalarList& list,
             const std::vector<ValueId>& extra) const {
    const bool waits = std::any_of(node.inputs.begin() + 1, node.inputs.end(),
                                   [&](ValueId input) { return nodes_.depends_on(input, chain); });
    if (waits) return false;
    Node giving = node;
    std::get<ir::BatchNormAttributes>(giving.attributes).gives_prologue = true;
    giving.outputs.push_back(giving.inputs[0]);
    return backend_.fuses(graph_, giving, list, extra);
  }

  // Where the prologue of a batch_norm_gradient is the gradient of relu(batch_norm(x)) and of
  // nothing else: what the result was worked out with, and can be again.
  ValueId beta_of_relu(const Node& node) const {
    using Forward = ir::BatchNormOperands;
    using Backward = ir::BatchNormGradientOperands;
    const ScalarList& list = std::get<ir::BatchNormAttributes>(node.attributes).epilogue;
    const auto prologue = ir::gradient_prologue_of(list);
    if (!prologue || prologue->result < 0) return kNone;
    const int k = prologue->result;
    const ValueId result = node.inputs[Backward::prologue(k)];
    const NodeId forward_id = graph_.value(result).producer;
    if (forward_id == kNone || graph_.node(forward_id).op != Op::batch_norm) return kNone;
    const Node& forward = graph_.node(forward_id);
    const auto epilogue =
        ir::add_relu_epilogue_of(std::get<ir::BatchNormAttributes>(forward.attributes).epilogue);
    const bool same =
        forward.inputs[Forward::x] == node.inputs[Backward::x] &&
        forward.outputs[Forward::mean] == node.inputs[Backward::mean] &&
        forward.outputs[Forward::inverse_deviation] == node.inputs[Backward::inverse_deviation] &&
        forward.inputs[Forward::gamma] == node.inputs[Backward::gamma];
    return same && epilogue && epilogue->relu && !epilogue->adds ? forward.inputs[Forward::beta]
                                                                 : kNone;
  }

  LivingNodes nodes_;
  ir::Graph& graph_;
  const Backend& backend_;
};

}  // namespace

ir::Graph fuse(const ir::Graph& graph, const Backend& backend) {
  return Fusion(graph, backend).run();
}

}  // namespace traingraph::passes
