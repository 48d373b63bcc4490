// The loss of a training graph in float64, as check_gradients differentiates it numerically: whole,
// or as a function of one parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "graph/gradients/gradient_point.h"
#include "runtime/program.h"

namespace traingraph {

// The forward ops of a lowered training graph in float64: writes of running statistics are left
// out, and a value behind which no gradient flows is marked.
struct Float64Graph {
  ir::Graph graph;
  std::vector<ir::ValueId> values;  // by value of the lowered graph; kNone: none of the forward's
  std::vector<bool> stopped;        // by own value
};
// Changes of the size of rounding: every number larger or smaller by this share of it, as drawn.
struct Shaking {
  double size = 0;
  std::uint64_t draw = 0;

  double factor(std::uint64_t number) const;
};

// Shaken are results of ops that compute.
Float64Graph float64_graph(const LoweredGraph& lowered, const std::set<TensorPtr>& stopped,
                           const Shaking& shaking);

// The numbers behind the loss: elements whose sum is what gradients are gradients of.
using LossElements = std::vector<double>;

// A program over values of the host, on the reference backend.
class Float64Program {
 public:
  Float64Program(const ir::Graph& graph, const Backend& backend);

  // Sources alone.
  void bind(ir::ValueId value, const std::byte* address);
  // Raises what interrupts the check, before it begins.
  void run();
  // Of a value that the graph keeps, or a source.
  const std::byte* address(ir::ValueId value) const;

 private:
  std::vector<ir::ValueId> values_;
  std::unique_ptr<Program> program_;
  std::shared_ptr<std::byte> arena_;
};

class LossOfParameter;

// The loss at one point, with every value on its way, on the reference backend.
class Float64Loss {
 public:
  // Shaken are sources, too.
  explicit Float64Loss(const GradientPoint& point, const Shaking& shaking = {});

  const LossElements& at_point() const { return at_point_; }

 private:
  friend class LossOfParameter;
  struct SourceBytes {
    ir::ValueId value;
    std::vector<double> numbers;  // of a floating-point type, else
    std::vector<std::byte> others;
    const std::byte* bytes() const;
  };

  SourceBytes source_of(ir::ValueId lowered_value, ir::ValueId value, const Shaking& shaking) const;
  // Of the program; `values` says what it has of the ends, empty: all of them.
  LossElements elements(const Float64Program& program,
                        const std::vector<ir::ValueId>& values) const;

  const GradientPoint& point_;
  const Backend& backend_;
  Float64Graph ops_;
  std::vector<LoweredGraph::End> ends_;  // own values
  std::vector<SourceBytes> sources_;
  std::unique_ptr<Float64Program> program_;
  LossElements at_point_;
};

// The loss as a function of one parameter: what does not depend on it is not computed again.
class LossOfParameter {
 public:
  LossOfParameter(Float64Loss& loss, const Tensor& parameter);

  // Whether it reaches the loss at all.
  bool matters() const { return program_ != nullptr; }
  // Its numbers, to be moved where they lie.
  std::vector<double>& parameter() { return moved_; }
  // The part of the loss that depends on it.
  LossElements elements();

 private:
  ir::ValueId add(ir::Graph& graph, ir::ValueId value);

  Float64Loss& loss_;
  std::vector<double> moved_;
  std::vector<ir::ValueId> values_;  // by value of the whole graph: own ones that depend on it
  std::unique_ptr<Float64Program> program_;
};

}  // namespace traingraph
