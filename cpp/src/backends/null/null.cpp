#include "backends/null/null.h"

#include "backends/cpu/cpu.h"

namespace traingraph::null {
namespace {

class Nothing final : public Executable {
 public:
  std::size_t workspace_bytes(ir::NodeId) const override { return 0; }
  void run(const ir::NodeId*, std::size_t, Pointers, double*) override {}
  bool all_finite(DataType, const std::byte*, std::size_t) const override { return true; }
};

// Fuses as the CPU backend does, so that plans look like real ones; layouts stay plain.
class NullBackend final : public Backend {
 public:
  std::string name() const override { return "null"; }
  std::vector<std::string> devices() const override { return {"no device"}; }
  const Traits& traits() const override {
    static constexpr Traits kNothing{.computes = false, .joins_projections = true};
    return kNothing;
  }
  Support supports(const ir::Graph&, const ir::Node&) const override { return {}; }
  bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
             const std::vector<ir::ValueId>& extra) const override {
    return cpu::backend().fuses(graph, producer, list, extra);
  }
  LayoutChoice layouts(const ir::Graph&, const ir::Node& node) const override {
    return {std::vector<ir::Layout>(node.inputs.size()),
            std::vector<ir::Layout>(node.outputs.size())};
  }
  std::unique_ptr<Executable> compile(const ir::Graph&,
                                      const std::vector<ir::NodeId>&) const override {
    return std::make_unique<Nothing>();
  }
  std::shared_ptr<std::byte> allocate(std::size_t) const override { return nullptr; }
};

}  // namespace

const Backend& backend() {
  static const NullBackend instance;
  return instance;
}

}  // namespace traingraph::null
