#pragma once

#include <string>

#include "graph/lowering/lowering.h"

namespace traingraph {

// Raises a typed error unless `data` can stand for the slot's tensor with this batch size; `type`
// is the program's type of the slot, the backend the graph's.
void check_data(const BoundSlot& slot, const ir::Type& type, const TensorData& data,
                const Backend& backend);
// Raises unless `data` is room for a result of this type.
void check_output(const std::string& name, const ir::Type& type, const TensorData& data,
                  const Backend& backend);

// The same extents but for those of 1.
bool fits(const Shape& actual, const Shape& expected);

// The samples that arrays of declared tensors have on axis 0.
class Rows {
 public:
  explicit Rows(std::int64_t declared_batch) : declared_batch_(declared_batch) {}

  // False for what is no rows of its tensor, and for other rows than those before. Raw bytes have
  // none to count, and one row that serves all samples is none of them.
  bool count(const TensorData& array, const Tensor& tensor);
  // The same, with a ShapeError for false.
  void add(const std::string& name, const TensorData& array, const Tensor& tensor, bool are_labels);
  // Of all; 0 without any, and where one is raw bytes.
  std::int64_t agreed() const { return agreed_ ? count_ : 0; }

 private:
  std::int64_t declared_batch_;
  std::int64_t count_ = 0;
  bool agreed_ = true;
};
// Those of a call's arrays in common, or 0.
std::int64_t rows_of(const GraphState& graph, std::int64_t declared_batch,
                     const ExecutionArguments& arguments);
// What a binding between executions brings: samples of declared tensors, and gradients.
struct Bound {
  Rows rows;
  bool user_gradients = false;
};
Bound bound_by(const GraphState& graph, std::int64_t declared_batch, const NamedData& data,
               const NamedTensors& tensors);
// "'a', 'b'" of a declaration, for messages.
std::string names_of(const NamedTensors& tensors);
// "'x' (8, 3), 'y' (4,)" of all that is declared.
std::string declared_shapes(const GraphState& graph);

}  // namespace traingraph
