// Checks of the caller's arrays against the program: data type, shape, batch size, and the memory
// that they are in.
#include "graph/data/data_binding.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "graph/data/shape_advice.h"
#include "runtime/foreign_streams.h"
#include "runtime/memory/parameter_store.h"
#include "runtime/memory/transfer.h"
#include "runtime/threads/stream.h"

namespace traingraph {

bool fits(const Shape& actual, const Shape& expected) {
  if (actual == expected) return true;
  std::size_t i = 0;
  std::size_t j = 0;
  for (;;) {
    while (i < actual.size() && actual[i] == 1) ++i;
    while (j < expected.size() && expected[j] == 1) ++j;
    if (i == actual.size() || j == expected.size()) break;
    if (actual[i++] != expected[j++]) return false;
  }
  return i == actual.size() && j == expected.size();
}

namespace {

// How a message begins; most calls have none to write.
struct Subject {
  const char* what;
  const std::string& name;
};
std::string operator+(const Subject& subject, const std::string& text) {
  return std::string("[") + subject.what + " '" + subject.name + "'] " + text;
}

void check(const Subject& subject, const ir::Type& type, const TensorData& data) {
  const std::size_t needed = ir::storage_bytes(type, {});
  if (data.bytes == nullptr) throw InvalidArgument(subject + "expected data but got none");
  if (data.data_type == DataType::kInvalid) {
    if (data.length >= needed) return;
    throw ShapeError(subject + "expected at least " + std::to_string(needed) + " bytes for " +
                     to_string(type.shape) + " but got " + std::to_string(data.length));
  }
  if (data.data_type != type.data_type) {
    throw DataTypeError(subject + "expected " + name(type.data_type) + " but got " +
                        name(data.data_type));
  }
  if (!fits(data.shape, type.shape)) {
    throw ShapeError(subject + "expected shape " + to_string(type.shape) + " but got " +
                     to_string(data.shape) + advice_on_images(data.shape, type.shape));
  }
}

// Raises unless the graph can reach the memory.
void check_place(const Subject& subject, const TensorData& data, const Backend& backend) {
  if (data.gpu < 0 || data.gpu == gpu_of(backend)) return;
  const std::string own =
      gpu_of(backend) < 0 ? "" : " or of GPU " + std::to_string(gpu_of(backend));
  throw InvalidArgument(subject + "expected memory of the host" + own +
                        ", because the graph is compiled for " + backend.name() +
                        ", but got memory of GPU " + std::to_string(data.gpu) +
                        "; copy it there, or compile for that GPU");
}

}  // namespace

void check_data(const BoundSlot& slot, const ir::Type& type, const TensorData& data,
                const Backend& backend) {
  const Subject subject{"tensor", slot.name};
  check_place(subject, data, backend);
  check(subject, type, data);
}

void check_output(const std::string& name, const ir::Type& type, const TensorData& data,
                  const Backend& backend) {
  const Subject subject{"output", name};
  check_place(subject, data, backend);
  if (!data.writable) throw InvalidArgument(subject + "expected writable memory");
  check(subject, type, data);
}

namespace {

constexpr NamedTensors GraphState::* kDeclared[] = {&GraphState::inputs, &GraphState::loss_labels,
                                                    &GraphState::loss_label_weights};
constexpr std::int64_t kNoRows = 0;

// Of an array that has the tensor's shape but for axis 0.
std::int64_t rows_in(const Shape& given, const Shape& shape) {
  if (given == shape) return shape[0];
  const std::int64_t all = element_count(given);
  const std::int64_t per_row = element_count(shape) / shape[0];
  const std::int64_t rows = all / per_row;
  if (rows * per_row != all) return kNoRows;
  if (rows == shape[0]) return fits(given, shape) ? rows : kNoRows;
  Shape expected = shape;
  expected[0] = rows;
  return fits(given, expected) ? rows : kNoRows;
}

}  // namespace

bool Rows::count(const TensorData& array, const Tensor& tensor) {
  const Shape& shape = tensor.descriptor().shape;
  if (array.data_type == DataType::kInvalid) {
    agreed_ = false;
  } else if (shape[0] == declared_batch_) {
    const std::int64_t rows = rows_in(array.shape, shape);
    if (rows == kNoRows || (count_ != 0 && rows != count_)) return agreed_ = false;
    count_ = rows;
  }
  return true;
}

void Rows::add(const std::string& name, const TensorData& array, const Tensor& tensor,
               bool are_labels) {
  if (count(array, tensor)) return;
  const Shape& shape = tensor.descriptor().shape;
  const Subject subject{"tensor", name};
  if (!array.shape.empty() && array.shape[0] == 0) {
    throw ShapeError(subject + "expected at least one row and, behind axis 0, the shape of " +
                     to_string(shape) + " but got " + to_string(array.shape));
  }
  if (rows_in(array.shape, shape) == kNoRows) {
    throw ShapeError(
        subject + "expected shape " + to_string(shape) + " but got " + to_string(array.shape) +
        (are_labels ? advice_on_labels(array.shape, shape, tensor.descriptor().data_type)
                    : advice_on_images(array.shape, shape)));
  }
  throw ShapeError(subject + "expected " + std::to_string(count_) +
                   " rows as in the arrays before but got " + to_string(array.shape) +
                   advice_on_rows(array.shape.empty() ? 0 : array.shape[0]));
}

std::int64_t rows_of(const GraphState& graph, std::int64_t declared_batch,
                     const ExecutionArguments& arguments) {
  Rows rows(declared_batch);
  const auto add = [&](const NamedData& data, const NamedTensors& declared) {
    std::size_t next = 0;
    for (const auto& [name, array] : data) {
      const TensorPtr* tensor = find_from(next, declared, name);
      if (tensor != nullptr) rows.add(name, array, **tensor, &declared == &graph.loss_labels);
    }
  };
  add(arguments.inputs, graph.inputs);
  add(arguments.loss_labels, graph.loss_labels);
  add(arguments.loss_label_weights, graph.loss_label_weights);
  return rows.agreed();
}

Bound bound_by(const GraphState& graph, std::int64_t declared_batch, const NamedData& data,
               const NamedTensors& tensors) {
  Bound bound{Rows(declared_batch)};
  for (const auto& [name, array] : data) {
    const TensorPtr* const tensor = find(tensors, name);
    if (tensor == nullptr) continue;
    const bool is_declared = std::ranges::any_of(
        kDeclared, [&](auto group) { return names(graph.*group, tensor->get()); });
    const bool are_labels = names(graph.loss_labels, tensor->get());
    if (is_declared) bound.rows.add(name, array, **tensor, are_labels);
    const auto is_it = [&](const GradientHandle& known) { return known.gradient == *tensor; };
    bound.user_gradients |= std::ranges::any_of(graph.user_gradients, is_it);
  }
  return bound;
}

std::string names_of(const NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text.empty() ? "none" : text;
}

std::string declared_shapes(const GraphState& graph) {
  std::string text;
  for (const auto* group : {&graph.inputs, &graph.loss_labels, &graph.loss_label_weights}) {
    for (const auto& [name, tensor] : *group) {
      text += (text.empty() ? "'" : ", '") + name + "' " + to_string(tensor->descriptor().shape);
    }
  }
  return text;
}

}  // namespace traingraph
