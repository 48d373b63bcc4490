// The graph IR for tests in Python: build graphs op by op, differentiate and rewrite them, and run
// them on a backend.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <set>

#include <traingraph/errors.h>

#include "backends/cpu/cpu.h"
#include "interpreter.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "runtime/memory/fill.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

using ir::ValueId;

ir::Op op_named(const std::string& text) {
  for (int k = 0; k < ir::kOpCount; ++k) {
    if (text == ir::name(static_cast<ir::Op>(k))) return static_cast<ir::Op>(k);
  }
  throw InvalidArgument("[graph] no op '" + text + "'");
}

std::optional<ValueId> optional(ValueId value) {
  if (value == ir::kNone) return std::nullopt;
  return value;
}

std::vector<ValueId> add_op(ir::Graph& graph, const std::string& op, const py::dict& attributes,
                            std::vector<ValueId> inputs) {
  const ir::Op which = op_named(op);
  const ir::NodeId node =
      ops::apply(graph, which, attributes_from(which, attributes), std::move(inputs));
  return graph.node(node).outputs;
}

// Gradients of `wanted`, None where nothing flows.
std::vector<std::optional<ValueId>> autodiff(ir::Graph& graph,
                                             const std::map<ValueId, ValueId>& seeds,
                                             const std::vector<ValueId>& wanted,
                                             const std::vector<ValueId>& stopped) {
  std::vector<passes::Seed> list;
  for (const auto& [value, gradient] : seeds) list.push_back({value, gradient});
  std::vector<bool> marks(graph.values.size(), false);
  for (ValueId value : stopped) marks.at(static_cast<std::size_t>(value)) = true;
  std::vector<std::optional<ValueId>> result;
  for (ValueId value : passes::autodiff(graph, list, wanted, marks)) {
    result.push_back(optional(value));
  }
  return result;
}

py::array array_of(const ir::Graph& graph, ValueId value, const std::byte* bytes) {
  const ir::Type& type = graph.type(value);
  const py::dtype dtype(name(type.data_type));
  return py::array(dtype, std::vector<py::ssize_t>(type.shape.begin(), type.shape.end()), bytes);
}

// The reference backend without the kernels of some ops, or of lists of more results.
class Lacking final : public Backend {
 public:
  Lacking(const std::vector<std::string>& ops, std::size_t most_results)
      : most_results_(most_results) {
    for (const std::string& op : ops) lacks_.insert(op_named(op));
  }
  std::string name() const override { return whole_.name(); }
  std::vector<std::string> devices() const override { return whole_.devices(); }
  Support supports(const ir::Graph& graph, const ir::Node& node) const override {
    const bool lacks = lacks_.contains(node.op) ||
                       (node.op == ir::Op::elementwise && node.outputs.size() > most_results_);
    return lacks ? Support::no("taken away") : whole_.supports(graph, node);
  }
  bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
             const std::vector<ValueId>& extra) const override {
    return whole_.fuses(graph, producer, list, extra);
  }
  LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) const override {
    return whole_.layouts(graph, node);
  }
  std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                      const std::vector<ir::NodeId>& nodes) const override {
    return whole_.compile(graph, nodes);
  }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) const override {
    return whole_.allocate(bytes);
  }

 private:
  const Backend& whole_ = backend_named("reference");
  std::set<ir::Op> lacks_;
  std::size_t most_results_;
};

// Numbers without a kernel are written into the values.
std::vector<passes::Constant> constants_of(ir::Graph& graph, const Backend& backend) {
  const auto lacks = [&](const ir::Node& node) {
    return node.op == ir::Op::constant && !backend.supports(graph, node).yes;
  };
  if (std::ranges::none_of(graph.nodes, lacks)) return {};
  return passes::take_constants(graph);
}

void set(Interpreter& interpreter, const ir::Graph& graph, const passes::Constant& constant) {
  const ir::Type& type = graph.type(constant.value);
  std::vector<std::byte> bytes(ir::storage_bytes(type, {}));
  const std::size_t step = bytes.size() / constant.numbers.size();
  for (std::size_t k = 0; k < constant.numbers.size(); ++k) {
    fill(bytes.data() + k * step, step, type.data_type, constant.numbers[k]);
  }
  interpreter.set(constant.value, bytes.data());
}

// Copies the given arrays in, runs every node, or what it is composed of, and copies the wanted
// values out.
std::vector<py::array> run(const ir::Graph& whole, const std::string& device,
                           const std::map<ValueId, py::array>& arrays,
                           const std::vector<ValueId>& wanted) {
  const Backend& backend = backend_named(device);
  ir::Graph graph = passes::with_compositions(whole, backend);
  const std::vector<passes::Constant> constants = constants_of(graph, backend);
  Interpreter interpreter(graph, backend);
  for (const passes::Constant& constant : constants) set(interpreter, graph, constant);
  for (const auto& [value, given] : arrays) {
    const ir::Type& type = graph.type(value);
    const py::array dense = py::array::ensure(given, py::array::c_style);
    const Shape shape(given.shape(), given.shape() + given.ndim());
    if (shape != type.shape || !given.dtype().is(py::dtype(name(type.data_type)))) {
      throw ShapeError("[run] expected " + to_string(type) + " but got " +
                       py::str(given.dtype()).cast<std::string>() + " " + to_string(shape));
    }
    interpreter.set(value, dense.data());
  }
  interpreter.run();
  std::vector<py::array> result;
  for (ValueId value : wanted) result.push_back(array_of(graph, value, interpreter.get(value)));
  return result;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend* backend : backends()) {
    if (backend->available().yes && backend->traits().computes) names.push_back(backend->name());
  }
  return names;
}

// Per op: what ops.def says of a kernel in the CPU backend's folder, and whether its table has one.
std::map<std::string, std::pair<bool, bool>> cpu_kernels() {
  std::map<std::string, std::pair<bool, bool>> result;
#define TRAINGRAPH_OP(name, attributes, cpu) result[#name] = {cpu, false};
#include "ops.def"
#undef TRAINGRAPH_OP
  for (const KernelEntry& entry : cpu::own_entries()) result[ir::name(entry.op)].second = true;
  return result;
}

}  // namespace

DataType data_type_named(const std::string& text) {
  for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBoolean,
                        DataType::kInt64, DataType::kInt32, DataType::kInt8, DataType::kUInt8,
                        DataType::kFloat64, DataType::kBFloat16}) {
    if (text == name(type)) return type;
  }
  throw InvalidArgument("[data type] no type '" + text + "'");
}

void bind_graph(py::module_& module) {
  py::class_<ir::Graph>(module, "Graph", "A graph of ops, built and run by hand.")
      .def(py::init<>())
      .def(
          "add_input",
          [](ir::Graph& graph, const std::string& dtype, Shape shape, bool batched) {
            ir::Type type{data_type_named(dtype), std::move(shape), batched};
            const int slot = static_cast<int>(graph.values.size());
            return graph.add_source(ir::Source::bound, slot, std::move(type), "input");
          },
          py::arg("dtype"), py::arg("shape"), py::arg("batched") = false)
      .def(
          "add_parameter",
          [](ir::Graph& graph, int slot, const std::string& dtype, Shape shape) {
            ir::Type type{data_type_named(dtype), std::move(shape)};
            return graph.add_source(ir::Source::parameter, slot, std::move(type), "parameter");
          },
          py::arg("slot"), py::arg("dtype"), py::arg("shape"), "For passes; nothing runs it.")
      .def("add_op", add_op, py::arg("op"), py::arg("attributes"), py::arg("inputs"))
      .def(
          "begin_gradient", [](ir::Graph& graph) { graph.phase = ir::Phase::gradient; },
          "Ops that are added from now on belong to the gradient phase.")
      .def(
          "keep", [](ir::Graph& graph, ValueId value) { graph.value(value).keep = true; },
          py::arg("value"), "What may be read after its phase.")
      .def(
          "writes",
          [](ir::Graph& graph, ValueId value, ValueId parameter) {
            graph.value(value).writes = parameter;
          },
          py::arg("value"), py::arg("parameter"), "Lets a result replace a parameter's bytes.")
      .def("autodiff", autodiff, py::arg("seeds"), py::arg("wanted"),
           py::arg("stopped") = std::vector<ValueId>{})
      .def("type",
           [](const ir::Graph& graph, ValueId value) {
             const ir::Type& type = graph.type(value);
             return py::make_tuple(name(type.data_type), py::tuple(py::cast(type.shape)),
                                   type.batched);
           })
      .def_readonly("fixed_batch", &ir::Graph::fixed_batch)
      .def("ops",
           [](const ir::Graph& graph) {
             std::vector<std::string> names;
             for (const ir::Node& node : graph.nodes) names.emplace_back(ir::name(node.op));
             return names;
           })
      .def(
          "compose",
          [](ir::Graph& graph, const std::vector<std::string>& ops, std::size_t most_results) {
            graph = passes::with_compositions(graph, Lacking(ops, most_results));
          },
          py::arg("ops"), py::arg("most_results") = std::numeric_limits<std::size_t>::max(),
          "The pass, for the reference backend without kernels of these, and of longer lists.")
      .def("verify", [](const ir::Graph& graph) { ir::verify(graph); })
      .def("run", run, py::arg("backend"), py::arg("arrays"), py::arg("wanted"))
      .def("__str__", [](const ir::Graph& graph) { return ir::to_string(graph); });
  module.def("cpu_kernels", cpu_kernels, "(flag in ops.def, entry in the table) by op.");
  module.def("backends", backend_names, "Backends that compute on this machine, best first.");
}

}  // namespace traingraph::testing
