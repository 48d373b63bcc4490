// Checks of sources and parameters that several layers share. All raise typed errors that name the
// layer.
#pragma once

#include <string>

#include <traingraph/errors.h>

#include "layers/emitter.h"

namespace traingraph {

// "[ReLU] text at layer 3 'relu'" for errors that the emitter has no function for.
inline std::string layer_message(const Emitter& e, const std::string& text) {
  return "[" + e.layer.description() + "] " + text + " at layer " + std::to_string(e.layer.id()) +
         " '" + e.layer.label() + "'";
}

// Raises DataTypeError unless source `i` holds floating-point numbers of source 0's type.
inline void expect_floating(const Emitter& e, std::size_t i, const std::string& what) {
  const DataType type = e.type(i).data_type;
  if (!is_floating_point(type)) {
    throw DataTypeError(
        layer_message(e, "expected " + what + " of floating-point numbers but got " + name(type)));
  }
  const DataType first = e.type(0).data_type;
  if (type != first) {
    throw DataTypeError(layer_message(
        e, "expected " + what + " of type " + name(first) + " but got " + name(type)));
  }
}

// Raises DataTypeError unless source `i` is of source `first`'s type, whichever that is.
inline void expect_type_of(const Emitter& e, std::size_t first, std::size_t i,
                           const std::string& what) {
  const DataType expected = e.type(first).data_type, type = e.type(i).data_type;
  if (type == expected) return;
  throw DataTypeError(layer_message(
      e, "expected " + what + " of type " + name(expected) + " but got " + name(type)));
}

// Raises ShapeError unless the tensor, where there is one, has as many elements as the shape that
// the layer reads it in: so that a parameter that does not fit shows when the layer is made.
inline void expect_elements(const Layer& layer, const std::string& what, const TensorPtr& tensor,
                            const Shape& shape) {
  if (tensor == nullptr) return;
  const Shape& actual = tensor->descriptor().shape;
  if (element_count(actual) == element_count(shape)) return;
  throw ShapeError("[" + layer.label() + "] expected " + what + " of " +
                   std::to_string(element_count(shape)) + " elements, " + to_string(shape) +
                   ", but got " + to_string(actual) + " at layer " + std::to_string(layer.id()) +
                   " '" + layer.label() + "'");
}

// Raises DataTypeError unless source `i` holds integers that count.
inline void expect_indices(const Emitter& e, std::size_t i) {
  const DataType type = e.type(i).data_type;
  if (type == DataType::kInt32 || type == DataType::kInt64) return;
  throw DataTypeError(
      layer_message(e, std::string("expected indices of int32 or int64 but got ") + name(type)));
}

inline void expect_floating(const Emitter& e) {
  for (std::size_t i = 0; i < e.sources.size(); ++i) expect_floating(e, i, "a source");
}

}  // namespace traingraph
