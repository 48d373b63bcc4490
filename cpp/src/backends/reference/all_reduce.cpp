// The sum over ranks, of arrays in the host's memory: the one kernel of host backends.
#include "distributed/all_reduce.h"

#include "backends/reference/reference.h"

namespace traingraph::reference {
namespace {

constexpr std::size_t kNumbers = 2;  // before the arrays

template <class T, class Sent = T>
class AllReduceKernel final : public ConcurrentKernel, distributed::Background::Call {
 public:
  AllReduceKernel(const ir::Graph& graph, const ir::Node& node)
      : AllReduceKernel(graph, node, std::get<ir::AllReduceAttributes>(node.attributes)) {}

  std::size_t workspace_bytes() const override { return sum_.workspace_bytes(); }

  void run(Pointers pointers) override {
    take(pointers);
    ranks_->background().make(*this);
  }
  void begin(Pointers pointers) override {
    take(pointers);
    ranks_->background().begin(*this);
  }
  void finish() override { ranks_->background().finish(*this); }
  // The others are amid the sums of this step.
  void abandon() noexcept override {
    ranks_->background().abandon(*this);
    ranks_->abandon();
  }

 private:
  AllReduceKernel(const ir::Graph& graph, const ir::Node& node,
                  const ir::AllReduceAttributes& attributes)
      : node_(node),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())),
        ranks_(distributed::ranks_numbered(attributes.ranks)),
        sum_(ranks_, attributes.graph, counts_of(graph, node)),
        arrays_(node.outputs.size()),
        sums_(node.outputs.size()) {}

  void take(Pointers pointers) {
    const auto number = [&](std::size_t k) {
      return *reinterpret_cast<const std::int64_t*>(pointers[node_.inputs[k]]);
    };
    for (std::size_t k = 0; k < sums_.size(); ++k) {
      arrays_[k] = reinterpret_cast<const T*>(pointers[node_.inputs[kNumbers + k]]);
      sums_[k] = reinterpret_cast<T*>(pointers[node_.outputs[k]]);
    }
    work_ = pointers[workspace_];
    rows_ = number(0);
    all_rows_ = number(1);
  }

  void make() override { sum_.run(arrays_.data(), sums_.data(), work_, rows_, all_rows_); }

  static std::vector<std::size_t> counts_of(const ir::Graph& graph, const ir::Node& node) {
    std::vector<std::size_t> counts;
    for (const ir::ValueId id : node.outputs) {
      const ir::Value& value = graph.value(id);
      counts.push_back(ir::storage_bytes(value.type, value.layout) / sizeof(T));
    }
    return counts;
  }

  ir::Node node_;
  std::size_t workspace_;
  std::shared_ptr<distributed::Ranks> ranks_;
  distributed::AllReduce<T, Sent> sum_;
  std::vector<const T*> arrays_;
  std::vector<T*> sums_;
  std::byte* work_ = nullptr;
  std::int64_t rows_ = 0, all_rows_ = 0;  // of the global batch
};

Support supports(const ir::Graph&, const ir::Node&) { return {}; }

// Sums have the layouts of the arrays, whatever those are.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice = layouts_as_they_are(graph, node);
  choice.outputs.assign(choice.inputs.begin() + kNumbers, choice.inputs.end());
  return choice;
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  if (std::get<ir::AllReduceAttributes>(node.attributes).in_bfloat16) {
    return std::make_unique<AllReduceKernel<float, distributed::BFloat16>>(graph, node);
  }
  if (graph.type(node.outputs[0]).data_type == DataType::kFloat64) {
    return std::make_unique<AllReduceKernel<double>>(graph, node);
  }
  return std::make_unique<AllReduceKernel<float>>(graph, node);
}

}  // namespace

KernelEntry all_reduce_entry() { return {ir::Op::all_reduce, supports, make, layouts, nullptr}; }

}  // namespace traingraph::reference
