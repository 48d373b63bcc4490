#include <limits>

#include <traingraph/data_movement.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/checks.h"

namespace traingraph {

Concatenation::Concatenation(std::int64_t dimension) : Layer("Concat"), dimension_(dimension) {
  if (dimension < 0) {
    throw InvalidArgument("[Concat] expected a dimension of at least 0 but got " +
                          std::to_string(dimension));
  }
}

std::string Concatenation::description() const {
  return "Concat dimension " + std::to_string(dimension_);
}

// x_i (…, D_i, …) → (…, Σ D_i, …).
void Concatenation::emit(Emitter& e) const {
  e.expect_sources(1, std::numeric_limits<std::size_t>::max());
  for (std::size_t i = 1; i < e.sources.size(); ++i) expect_type_of(e, 0, i, "a source");
  if (dimension_ >= e.type(0).rank()) {
    e.fail_shape("expected a dimension below the rank of " + to_string(e.type(0).shape) +
                 " but got " + std::to_string(dimension_));
  }
  e.result(ops::apply1(e.graph, ir::Op::concatenate,
                       ir::AxisAttributes{static_cast<int>(dimension_)}, e.sources));
}

Reshape::Reshape(Shape shape) : Layer("Reshape"), shape_(std::move(shape)) {
  bool valid = !shape_.empty();
  for (std::int64_t extent : shape_) valid = valid && extent >= 1;
  if (!valid) {
    throw InvalidArgument("[Reshape] expected extents of at least 1 but got " + to_string(shape_));
  }
}

std::string Reshape::description() const { return "Reshape " + to_string(shape_); }

// x (…) → the shape asked for. A first extent that is the source's batch stays the batch.
void Reshape::emit(Emitter& e) const {
  e.expect_sources(1);
  ir::ReshapeAttributes attributes{shape_, false};
  if (e.type(0).batched && shape_[0] == e.lowering.declared_batch) {
    attributes.shape[0] = e.lowering.batch;
    attributes.batched = true;
  }
  e.result(ops::apply1(e.graph, ir::Op::reshape, std::move(attributes), {e.sources[0]}));
}

Transpose::Transpose(std::vector<std::int64_t> dimensions)
    : Layer("Transpose"), dimensions_(std::move(dimensions)) {
  std::vector<bool> seen(dimensions_.size(), false);
  bool valid = !dimensions_.empty();
  for (std::int64_t axis : dimensions_) {
    valid = valid && axis >= 0 && axis < static_cast<std::int64_t>(seen.size()) &&
            !seen[static_cast<std::size_t>(axis)];
    if (valid) seen[static_cast<std::size_t>(axis)] = true;
  }
  if (!valid) {
    throw InvalidArgument("[Transpose] expected each axis once but got " + to_string(dimensions_));
  }
}

std::string Transpose::description() const { return "Transpose " + to_string(dimensions_); }

// Axis k of the result is axis dimensions[k] of x.
void Transpose::emit(Emitter& e) const {
  e.expect_sources(1);
  if (static_cast<int>(dimensions_.size()) != e.type(0).rank()) {
    e.fail_shape("expected one entry per axis of " + to_string(e.type(0).shape) + " but got " +
                 to_string(dimensions_));
  }
  ir::TransposeAttributes attributes;
  attributes.axes.assign(dimensions_.begin(), dimensions_.end());
  e.result(ops::apply1(e.graph, ir::Op::transpose, std::move(attributes), {e.sources[0]}));
}

const ClassDescription& Concatenation::class_description() {
  static const ClassDescription description =
      Describing<Concatenation, Layer>("MLCConcatenationLayer", "Joins sources along one axis.")
          .argument("dimension", &Concatenation::dimension, "The axis.", 1)
          .in(kLimit)
          .made_of<std::int64_t>(
              "Shapes: the other extents agree. Types: any, all of one, bit for bit. Gradient: cut "
              "at the same places. Errors: ValueError where extents differ and for a dimension "
              "that "
              "the sources do not have, TypeError for mixed types.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Concatenation>(), {{{2, 2}, t}, {{2, 2}, t}}};
          });
  return description;
}

const ClassDescription& Reshape::class_description() {
  static const ClassDescription description =
      Describing<Reshape, Layer>("MLCReshapeLayer",
                                 "The same elements in row-major order under another shape.")
          .argument("shape", &Reshape::shape, "The shape of the result.")
          .in(kOneOrMore)
          .made_of<Shape>(
              "Shapes: any to this one. Types: any, bit for bit. Gradient: in the source's shape. "
              "Errors: ValueError where "
              "the counts of elements differ.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Reshape>(Shape{4}), {{{2, 2}, t}}};
          });
  return description;
}

const ClassDescription& Transpose::class_description() {
  static const ClassDescription description =
      Describing<Transpose, Layer>("MLCTransposeLayer", "Reorders the axes.")
          .argument("dimensions", &Transpose::dimensions,
                    "The source's axis of each axis of the result.")
          .in(kLimit)
          .made_of<Shape>(
              "Shapes: axis k of the result is axis dimensions[k] of the source. Types: any, bit "
              "for "
              "bit. Gradient: dy with its axes put back. Errors: "
              "ValueError for anything but a permutation of the axes.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Transpose>(Shape{1, 0}), {{{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
