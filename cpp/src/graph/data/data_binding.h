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

// What arrays have on axis 0, each read in its tensor's shape.
class Rows {
 public:
  // False once one is raw or no rows of its tensor; ShapeError for other rows than those before.
  bool add(const NamedData& data, const NamedTensors& declared);
  bool add(const Tensor& tensor, const Shape& given);
  // Of all; 0 where they do not agree.
  std::int64_t agreed() const { return agreed_ ? count_ : 0; }

 private:
  std::int64_t count_ = 0;
  bool agreed_ = true;
};
std::int64_t rows_of(const GraphState& graph, const ExecutionArguments& arguments);
// "'a', 'b'" of a declaration, for messages.
std::string names_of(const NamedTensors& tensors);
// "'x' (8, 3), 'y' (4,)" of all that is declared.
std::string declared_shapes(const GraphState& graph);

}  // namespace traingraph
