// `Lowering`, the op graph under construction, and `Emitter`, through which one layer adds its ops
// to it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <traingraph/layer.h>
#include <traingraph/tensor.h>

#include "ir/graph.h"
#include "ops/emit.h"

namespace traingraph {

// The ops so far, and which tensors became parameters.
struct Lowering {
  ir::Graph graph;
  bool training = true;
  DataType data_type = DataType::kFloat32;
  // Axis 0 of declared inputs: what their tensors say, and what this lowering is for.
  std::int64_t declared_batch = 0;
  std::int64_t batch = 0;
  // Several forward passes, of micro-batches or ranks, make one step; each needs to know its rows
  // among all of them.
  bool in_larger_batch = false;
  // The number of the ranks over which batch norm counts rows; kNone: it counts its own.
  int batch_norm_ranks = ir::kNone;
  int graph_of_ranks = 0;               // of their graphs
  std::set<ir::ValueId> written_alike;  // parameters to which all ranks write the same in a step
  // A call may bring fewer rows than the batch: see layers/real_rows.h.
  bool takes_fewer_rows = false;
  bool kernels_count_rows = false;                // whether the backend's batch norm does, too
  bool joins_projections = false;                 // Traits::joins_projections of the backend
  std::map<std::int64_t, ir::ValueId> real_rows;  // by extent: 1 where a row is the call's, else 0
  std::set<ir::ValueId> zeroed;                   // zeros in the other rows
  std::uint64_t random_seed = 0;                  // of the graph; every layer derives its own
  std::vector<TensorPtr> parameters;              // by slot
  std::map<const Tensor*, ir::ValueId> parameter_values;
  // What those have become that a layer changes before it, and all behind it, read them.
  std::map<const Tensor*, ir::ValueId> replaced;
  std::set<const Tensor*> frozen;  // by disable_update or train_only: keep their bits
  std::map<ir::StepInput, ir::ValueId> step_values;

  // The value of a parameter in its canonical shape: the shape of its first use, unless the store
  // already holds it in another one.
  ir::ValueId parameter(const TensorPtr& tensor, const Shape& shape);
  ir::ValueId step(ir::StepInput input);
};

// What the layer reads of its sources' values: numbers of 16 bits as float32, or as they are where
// it only moves numbers, all of one floating-point type. `widened` has what is cast already.
std::vector<ir::ValueId> read_by(const Layer& layer, ir::Graph& graph,
                                 std::vector<ir::ValueId> sources,
                                 std::map<ir::ValueId, ir::ValueId>& widened);

// A layer's view while it writes itself as ops.
class Emitter {
 public:
  Emitter(Lowering& lowering, const Layer& layer, std::vector<ir::ValueId> sources);
  // Over the values of these tensors.
  Emitter(Lowering& lowering, const Layer& layer, std::vector<ir::ValueId> sources,
          const std::vector<TensorPtr>& tensors);

  Lowering& lowering;
  ir::Graph& graph;
  const Layer& layer;
  const std::vector<ir::ValueId> sources;
  std::vector<ir::ValueId> results;
  // Lengths of the sequences in each source, empty where its tensor has none; and in the first
  // result.
  std::vector<Shape> sequence_lengths;
  Shape result_lengths;

  bool training() const { return lowering.training; }
  // A copy: what is emitted next moves the graph's values.
  ir::Type type(std::size_t source) const { return graph.type(sources[source]); }
  // The tensor as a value of this shape; its element count must fit.
  ir::ValueId parameter(const TensorPtr& tensor, const Shape& shape);
  // The op's result replaces the bytes of this parameter, which has as many elements.
  void write(const TensorPtr& tensor, ir::ValueId value);
  // The same, and layers behind this one read the result.
  void replace(const TensorPtr& tensor, ir::ValueId value);
  void result(ir::ValueId value) { results.push_back(value); }
  // Raises unless there are as many sources.
  void expect_sources(std::size_t count) const { expect_sources(count, count); }
  void expect_sources(std::size_t least, std::size_t most) const;
  // "[Convolution] text at layer 7 'conv1'"
  [[noreturn]] void fail_shape(const std::string& text) const;
  [[noreturn]] void fail_argument(const std::string& text) const;
  // A seed for this application: from the layer's own, or else the graph's, and the position.
  std::uint64_t seed(std::uint64_t own) const;

 private:
  std::string message(const std::string& text) const;
};

}  // namespace traingraph
