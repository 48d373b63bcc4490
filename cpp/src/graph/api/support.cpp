// Whether a device has the kernels that a layer needs, asked without compiling a graph.
#include <traingraph/support.h>

#include <set>

#include <traingraph/errors.h>

#include "layers/emitter.h"
#include "passes/passes.h"
#include "runtime/backend.h"

namespace traingraph {
namespace {

// The layer over sources of these shapes and types, with the gradients of all of them.
ir::Graph with_gradients(const Layer& layer, const std::vector<TensorDescriptor>& sources) {
  Lowering lowering;
  std::vector<ir::ValueId> values;
  for (const TensorDescriptor& d : sources) {
    values.push_back(lowering.graph.add_source(ir::Source::bound, static_cast<int>(values.size()),
                                               {d.data_type, d.shape, false}, "source"));
    if (d.data_type == DataType::kFloat64) lowering.data_type = d.data_type;
  }
  std::map<ir::ValueId, ir::ValueId> widened;
  values = read_by(layer, lowering.graph, std::move(values), widened);
  Emitter emitter(lowering, layer, values);
  layer.emit(emitter);
  for (const auto& [tensor, value] : lowering.parameter_values) values.push_back(value);
  ir::Graph& graph = lowering.graph;
  graph.phase = ir::Phase::gradient;
  std::vector<passes::Seed> seeds;
  for (ir::ValueId result : emitter.results) {
    seeds.push_back({result, ops::filled(graph, graph.type(result), 1)});
  }
  passes::autodiff(graph, seeds, values, {});
  return std::move(graph);
}

}  // namespace

KernelReport kernels_of(const Layer& layer, const std::vector<TensorDescriptor>& sources,
                        const Device& device) {
  const Backend& backend = backend_named(device.backend(), device.index());
  ir::Graph graph;
  try {
    graph = with_gradients(layer, sources);
  } catch (const DataTypeError& error) {
    return {error.what(), {}, {}, {}};
  } catch (const Unsupported& error) {
    return {error.what(), {}, {}, {}};
  }
  std::set<ir::Op> written, left;
  for (const ir::Node& node : graph.nodes) written.insert(node.op);
  graph = passes::with_compositions(graph, backend);
  passes::take_constants(graph);  // no kernels run
  std::set<std::string> reasons, looped, own;
  for (const ir::Node& node : graph.nodes) {
    left.insert(node.op);
    // A reshape is a view: no kernel runs.
    if (node.op == ir::Op::reshape) continue;
    const Support support = backend.supports(graph, node);
    if (!support.yes) reasons.insert(std::string(ir::name(node.op)) + ": " + support.reason);
    if (support.yes) (support.reason.empty() ? own : looped).insert(ir::name(node.op));
  }
  KernelReport report;
  for (const std::string& reason : reasons) {
    report.missing += (report.missing.empty() ? "" : "; ") + reason;
  }
  for (ir::Op op : written) {
    // What numbers are made of is taken out.
    const bool is_gone = !left.contains(op) && op != ir::Op::constant && op != ir::Op::elementwise;
    if (is_gone) report.composed.emplace_back(ir::name(op));
  }
  report.looped.assign(looped.begin(), looped.end());
  report.own.assign(own.begin(), own.end());
  return report;
}

bool has_kernels(const Layer& layer, const std::vector<TensorDescriptor>& sources,
                 const Device& device) {
  return kernels_of(layer, sources, device).missing.empty();
}

}  // namespace traingraph
