// A block, which is called with a value, or with a graph and a tensor.
#include "mlcompute/nn_block.h"

#include "classes/bound_class.h"
#include "classes/described_class.h"
#include "convert/convert.h"
#include "convert/release.h"

namespace traingraph::python {

using nn::Block;

namespace {

// What a block was called with in place of a value, or of a graph and a tensor.
[[noreturn]] void refuse_source(const Block& block, const py::object& first,
                                const py::object& second) {
  const auto named = [](const py::object& value) {
    return py::isinstance<nn::Value>(value) ? "a Value" : "'" + type_name(value) + "'";
  };
  std::string text = "[" + block.text() + "] expected a Value, or a graph and a tensor, but got " +
                     named(first) + (second.is_none() ? "" : " and " + named(second));
  if (py::isinstance<nn::Value>(first)) {
    text += "; a block reads one, and attention and lstm the lengths of its sequences";
  } else if (py::isinstance<Tensor>(first)) {
    text += "; the graph comes before the tensor";
  } else if (py::isinstance<Graph>(first)) {
    text += "; the tensor comes behind the graph";
  } else {
    text += "; arrays are for predict and fit of nn.model([…])";
  }
  throw py::type_error(text);
}

}  // namespace

TensorPtr called_in_graph(const Block& block, const Arguments& given) {
  const auto graph = given.get<GraphPtr>("graph");
  const auto x = given.get<TensorPtr>("x");
  const auto lengths = given.nullable<TensorPtr>("lengths");
  const ReleasedGil released;
  return lengths == nullptr ? block(graph, x) : block(graph, x, lengths);
}

void bind_nn_block(py::module_& module) {
  bind_described(module, Block::class_description(), ownership<void>());
  auto block = py::reinterpret_borrow<BoundClass<Block>>(module.attr("Block"));
  def_method(
      block, "__call__", "Any",
      {"graph: MLCGraph | Value, x: MLCTensor | Value | None = None, lengths: MLCTensor | Value | "
       "None = None"},
      "The result of a new layer: an MLCTensor over x in a graph, or over a Value one of "
      "nn.model's. Errors: those of the layer, naming the block; ValueError for lengths that the "
      "block has no use for.\n\n"
      "* graph: The graph that the layer is added to, or a value.\n"
      "* x: The tensor that it reads there; behind a value the lengths.\n"
      "* lengths: How many steps each sequence has, of int32; for attention and lstm.",
      [](const Block& self, const Arguments& given) -> py::object {
        const py::object first = given["graph"], second = given["x"], third = given["lengths"];
        if (py::isinstance<nn::Value>(first)) {
          const auto x = py::cast<nn::Value>(first);
          const py::object& lengths = second.is_none() ? third : second;
          if (lengths.is_none()) return py::cast(self(x));
          const bool has_both = !second.is_none() && !third.is_none();
          if (has_both || !py::isinstance<nn::Value>(lengths)) refuse_source(self, first, lengths);
          return py::cast(self(x, py::cast<nn::Value>(lengths)));
        }
        if (!py::isinstance<Graph>(first) || !py::isinstance<Tensor>(second)) {
          refuse_source(self, first, second);
        }
        return py::cast(called_in_graph(self, given));
      },
      Signature::Kind::kPairMethod);
}

}  // namespace traingraph::python
