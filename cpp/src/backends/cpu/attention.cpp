// Attention and its gradient in float32: units by shape, each with scratch of its own.
#include "backends/cpu/isa/attention.h"

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"
#include "runtime/numbers/philox.h"

namespace traingraph::cpu {
namespace {

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (std::get<ir::AttentionAttributes>(node.attributes).joined) {
    return Support::no("attention over one operand");
  }
  if (graph.type(node.inputs[0]).data_type == DataType::kFloat32) return {};
  return Support::no("hand-written attention loops take float32");
}

std::vector<ir::Type> types_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  std::vector<ir::Type> types;
  for (ir::ValueId id : values) types.push_back(graph.type(id));
  return types;
}

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const ir::Graph& graph, const ir::Node& node)
      : is_gradient_(node.op == ir::Op::attention_gradient),
        attributes_(std::get<ir::AttentionAttributes>(node.attributes)),
        at_(attributes_, is_gradient_, node.inputs.size()),
        extents_(attributes_, at_, types_of(graph, node.inputs)),
        inputs_(node.inputs),
        outputs_(node.outputs) {
    marks_ = at_.mask != 0 && graph.type(node.inputs[at_.mask]).data_type == DataType::kBoolean;
    op_.heads = extents_.heads;
    op_.queries = extents_.queries;
    op_.keys = extents_.keys;
    op_.features = extents_.features;
    op_.row = extents_.row();
    op_.scale = static_cast<float>(attributes_.scale);
    op_.masked_keys = extents_.masked_keys;
    op_.mask_rows = extents_.mask_rows;
    op_.causal = attributes_.causal;
    op_.drops = at_.step != 0;
    op_.threshold = philox::keep_threshold(attributes_.rate);
    op_.kept = static_cast<float>(1 / (1 - attributes_.rate));
    op_.seed = attributes_.seed;
    op_.counted_keys = extents_.counted_keys();
    const double products = is_gradient_ ? 5 : 2;
    const double multiplications = products *
                                   static_cast<double>(extents_.samples * extents_.queries) *
                                   static_cast<double>(extents_.keys * extents_.row());
    threads_ = threads_for(multiplications / 20);
  }

  void run(Pointers pointers) override {
    bind(pointers);
    if (is_gradient_) {
      run_gradient(pointers);
    } else {
      float* const y = reinterpret_cast<float*>(pointers[outputs_[0]]);
      float* const largest = reinterpret_cast<float*>(pointers[outputs_[1]]);
      float* const logarithm = reinterpret_cast<float*>(pointers[outputs_[2]]);
      each_block(extents_.samples * extents_.heads,
                 [&](std::int64_t head, std::int64_t first, std::int64_t count) {
                   loops_.forward(op_, head / op_.heads, head % op_.heads, first, count, y, largest,
                                  logarithm);
                 });
    }
  }

 private:
  // The operand at this position; null where there is none, which is position 0.
  template <class T>
  const T* optional(Pointers pointers, std::size_t i) const {
    return i == 0 ? nullptr : reinterpret_cast<const T*>(pointers[inputs_[i]]);
  }
  const float* in(Pointers pointers, std::size_t i) const {
    return reinterpret_cast<const float*>(pointers[inputs_[i]]);
  }
  float* out(Pointers pointers, std::size_t i) const {
    return i < outputs_.size() ? reinterpret_cast<float*>(pointers[outputs_[i]]) : nullptr;
  }

  void bind(Pointers pointers) {
    op_.q = in(pointers, at_.q);
    op_.k = in(pointers, at_.k);
    op_.v = in(pointers, at_.v);
    op_.key_mask = optional<bool>(pointers, at_.key_mask);
    op_.mask = marks_ ? optional<bool>(pointers, at_.mask) : nullptr;
    op_.added = marks_ ? nullptr : optional<float>(pointers, at_.mask);
    if (!op_.drops) return;
    op_.step = static_cast<std::uint64_t>(*optional<std::int64_t>(pointers, at_.step));
    const auto* const first_row = optional<std::int64_t>(pointers, at_.first_row);
    op_.first_row = first_row != nullptr ? static_cast<std::uint64_t>(*first_row) : 0;
  }

  // body(matrix, first query, queries) for all blocks of queries of so many matrices.
  template <class Body>
  void each_block(std::int64_t matrices, const Body& body) const {
    const std::int64_t blocks = (op_.queries + kAttentionQueries - 1) / kAttentionQueries;
    parallel_for(matrices * blocks, threads_, [&](std::int64_t unit) {
      const std::int64_t first = unit % blocks * kAttentionQueries;
      body(unit / blocks, first, std::min(kAttentionQueries, op_.queries - first));
    });
  }

  void run_gradient(Pointers pointers) const {
    const AttentionSlopes slopes{in(pointers, at_.dy),      in(pointers, at_.y),
                                 in(pointers, at_.largest), in(pointers, at_.logarithm),
                                 out(pointers, 0),          out(pointers, 1),
                                 out(pointers, 2),          out(pointers, 3)};
    parallel_for(extents_.samples * op_.heads, threads_, [&](std::int64_t head) {
      loops_.gradient(op_, slopes, head / op_.heads, head % op_.heads);
    });
    if (slopes.dmask == nullptr) return;
    each_block(op_.mask_rows, [&](std::int64_t at, std::int64_t first, std::int64_t count) {
      loops_.mask_gradient(op_, slopes, extents_.samples, at, first, count);
    });
  }

  const AttentionLoops& loops_ = *loops().attention;
  bool is_gradient_;
  ir::AttentionAttributes attributes_;
  ir::AttentionOperands at_;
  ir::AttentionExtents extents_;
  std::vector<ir::ValueId> inputs_, outputs_;
  bool marks_ = false;  // whether the mask is one of booleans
  Attention op_{};      // its addresses are those of the run
  int threads_ = 1;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<AttentionKernel>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& attention_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::attention, supports, make, nullptr, nullptr},
      KernelEntry{ir::Op::attention_gradient, supports, make, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
