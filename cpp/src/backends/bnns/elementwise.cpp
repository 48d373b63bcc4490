// The op elementwise: a list of scalar functions by itself.
#include "backends/bnns/bnns.h"
#include "backends/bnns/list_loop.h"

namespace traingraph::bnns {
namespace {

class Elementwise final : public Kernel {
 public:
  Elementwise(const ir::Graph& graph, const ir::Node& node)
      : loop_(graph, std::get<ir::ElementwiseAttributes>(node.attributes).list, node.inputs,
              node.outputs),
        workspace_(workspace_of(graph, node)) {}

  std::size_t workspace_bytes() const override { return loop_.workspace_bytes(); }
  void run(Pointers pointers) override {
    loop_.run(pointers, reinterpret_cast<float*>(pointers[workspace_]));
  }

 private:
  ListLoop loop_;
  std::size_t workspace_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Elementwise>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& elementwise_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::elementwise, plain_float32, make}};
  return entries;
}

}  // namespace traingraph::bnns
