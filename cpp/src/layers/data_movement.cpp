// The layers Concatenation, Reshape and Transpose: their checks, and when the batch stays axis 0.
#include <algorithm>
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

namespace {

// The extent of a reshape that follows from the source's count of elements.
constexpr std::int64_t kRest = -1;
constexpr Range kExtentOrRest{-1, kInfinite, "1 or more; one may be -1"};

// The shape with the extent that is left to `elements`.
Shape resolved(const Emitter& e, Shape shape, std::int64_t elements) {
  const auto rest = std::ranges::find(shape, kRest);
  if (rest == shape.end()) return shape;
  *rest = 1;
  const std::int64_t others = element_count(shape);
  if (elements % others != 0) {
    *rest = kRest;
    e.fail_shape("expected a source of a multiple of " + std::to_string(others) + " elements for " +
                 to_string(shape) + " but got " + to_string(e.type(0).shape));
  }
  *rest = elements / others;
  return shape;
}

}  // namespace

Reshape::Reshape(Shape shape) : Layer("Reshape"), shape_(std::move(shape)) {
  const auto is_extent = [](std::int64_t extent) { return extent >= 1 || extent == kRest; };
  if (shape_.empty() || !std::ranges::all_of(shape_, is_extent) ||
      std::ranges::count(shape_, kRest) > 1) {
    throw InvalidArgument("[Reshape] expected extents of at least 1, or one of -1, but got " +
                          to_string(shape_));
  }
}

std::string Reshape::description() const { return "Reshape " + to_string(shape_); }

// x (…) → the shape asked for. A first extent that is the source's batch stays the batch; -1 is
// found for the declared one.
void Reshape::emit(Emitter& e) const {
  e.expect_sources(1);
  const ir::Type source = e.type(0);
  const std::int64_t declared = e.lowering.declared_batch;
  std::int64_t elements = source.elements();
  if (source.batched && elements > 0) elements = elements / source.shape[0] * declared;
  ir::ReshapeAttributes attributes{resolved(e, shape_, elements), false};
  if (source.batched && attributes.shape[0] == declared) {
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
          .argument("shape", &Reshape::shape,
                    "The shape of the result; an extent of -1 is what is left of the elements.")
          .in(kExtentOrRest)
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
