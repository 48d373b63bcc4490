// The layers Split, Gather, Scatter and Selection: their checks and ops.
#include <traingraph/describe.h>
#include <traingraph/indexing.h>

#include <algorithm>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "layers/checks.h"

namespace traingraph {
namespace {

std::int64_t checked_dimension(const char* kind, std::int64_t dimension) {
  if (dimension >= 0) return dimension;
  throw InvalidArgument("[" + std::string(kind) + "] expected a dimension of at least 0 but got " +
                        std::to_string(dimension));
}

// The extent that `dimension` has in source `i`.
std::int64_t extent_of(const Emitter& e, std::size_t i, std::int64_t dimension) {
  const Shape& shape = e.type(i).shape;
  if (dimension >= e.type(i).rank()) {
    e.fail_shape("expected a dimension below the rank of " + to_string(shape) + " but got " +
                 std::to_string(dimension));
  }
  return shape[static_cast<std::size_t>(dimension)];
}

// Each part is a tensor and an op of its own.
constexpr std::int64_t kMostParts = 1 << 16;

Shape sections(const Emitter& e, std::int64_t extent, std::int64_t count) {
  const std::int64_t length = extent / count + (extent % count != 0 ? 1 : 0);
  if (extent / length > kMostParts) {
    e.fail_argument("expected at most " + std::to_string(kMostParts) + " parts but got " +
                    std::to_string(extent / length));
  }
  Shape lengths;
  for (std::int64_t start = 0; start < extent; start += length) {
    lengths.push_back(std::min(length, extent - start));
  }
  const auto parts = static_cast<std::int64_t>(lengths.size());
  if (parts != std::min(count, extent)) {
    e.fail_shape("expected " + std::to_string(count) + " parts but parts of " +
                 std::to_string(length) + " cut " + std::to_string(extent) + " elements into " +
                 std::to_string(parts));
  }
  return lengths;
}

}  // namespace

Split::Split(std::int64_t split_count, std::int64_t dimension)
    : Layer("Split"), dimension_(checked_dimension("Split", dimension)), split_count_(split_count) {
  if (split_count < 1) {
    throw InvalidArgument("[Split] expected at least 1 part but got " +
                          std::to_string(split_count));
  }
}

Split::Split(Shape split_section_lengths, std::int64_t dimension)
    : Layer("Split"),
      dimension_(checked_dimension("Split", dimension)),
      split_count_(static_cast<std::int64_t>(split_section_lengths.size())),
      lengths_(std::move(split_section_lengths)) {
  bool valid = !lengths_.empty();
  for (std::int64_t length : lengths_) valid = valid && length >= 1;
  if (!valid) {
    throw InvalidArgument("[Split] expected lengths of at least 1 but got " + to_string(lengths_));
  }
}

std::string Split::description() const {
  return "Split " + (lengths_.empty() ? std::to_string(split_count_) : to_string(lengths_)) +
         " dimension " + std::to_string(dimension_);
}

// x (…, D, …) → parts (…, d_k, …) with Σ d_k = D.
void Split::emit(Emitter& e) const {
  e.expect_sources(1);
  const std::int64_t extent = extent_of(e, 0, dimension_);
  const Shape lengths = lengths_.empty() ? sections(e, extent, split_count_) : lengths_;
  // Must not wrap round to the extent.
  std::int64_t sum = 0;
  for (const std::int64_t part : lengths) {
    sum = ir::sum(sum, part);
  }
  if (sum != extent) {
    e.fail_shape("expected lengths with the sum " + std::to_string(extent) + ", the extent in " +
                 to_string(e.type(0).shape) + ", but got " + to_string(lengths) + " with the sum " +
                 std::to_string(sum));
  }
  std::int64_t start = 0;
  for (std::int64_t length : lengths) {
    e.result(ops::apply1(e.graph, ir::Op::slice,
                         ir::SliceAttributes{static_cast<int>(dimension_), start, length},
                         {e.sources[0]}));
    start += length;
  }
}

Gather::Gather(std::int64_t dimension)
    : Layer("Gather"), dimension_(checked_dimension("Gather", dimension)) {}

std::string Gather::description() const { return "Gather dimension " + std::to_string(dimension_); }

// x (…, D, …), indices (d) or (…, d, …) → (…, d, …).
void Gather::emit(Emitter& e) const {
  e.expect_sources(2);
  expect_indices(e, 1);
  extent_of(e, 0, dimension_);
  e.result(ops::apply1(e.graph, ir::Op::gather, ir::AxisAttributes{static_cast<int>(dimension_)},
                       e.sources));
}

Scatter::Scatter(std::int64_t dimension, ReductionType reduction_type)
    : Layer("Scatter"),
      dimension_(checked_dimension("Scatter", dimension)),
      reduction_type_(reduction_type) {
  if (reduction_type != ReductionType::kNone && reduction_type != ReductionType::kSum) {
    throw InvalidArgument(
        "[Scatter] expected NONE, which overwrites, or SUM, which adds, but got the reduction " +
        std::to_string(static_cast<int>(reduction_type)) + ", which ML Compute refuses too");
  }
}

std::string Scatter::description() const {
  return "Scatter dimension " + std::to_string(dimension_) +
         (reduction_type_ == ReductionType::kSum ? " sum" : "");
}

// values (…, d, …), indices (d) or (…, d, …), x (…, D, …) → (…, D, …).
void Scatter::emit(Emitter& e) const {
  e.expect_sources(3);
  expect_indices(e, 1);
  expect_type_of(e, 0, 2, "copy_from");
  extent_of(e, 2, dimension_);
  const ir::ScatterAttributes attributes{static_cast<int>(dimension_),
                                         reduction_type_ == ReductionType::kSum};
  e.result(ops::apply1(e.graph, ir::Op::scatter, attributes, e.sources));
}

Selection::Selection() : Layer("Selection") {}

// condition, x, y (…) broadcast against each other → (…).
void Selection::emit(Emitter& e) const {
  e.expect_sources(3);
  const DataType condition = e.type(0).data_type;
  if (condition != DataType::kBoolean) {
    throw DataTypeError(
        layer_message(e, std::string("expected a condition of bool but got ") + name(condition)));
  }
  expect_type_of(e, 1, 2, "a third source");
  e.result(ops::apply1(e.graph, ir::Op::select, ir::SelectAttributes{}, e.sources));
}

const ClassDescription& Split::class_description() {
  const auto dimension = [] {
    return argument("dimension", std::int64_t{1}, "The axis.", &kLimit);
  };
  static const ClassDescription description =
      Describing<Split, Layer>("MLCSplitLayer",
                               "Cuts a tensor along one axis; its results are the parts.")
          .property("dimension", &Split::dimension, "The axis.")
          .property("split_count", &Split::split_count, "The number of parts.")
          .property(
              "split_section_lengths",
              [](const Split& self) {
                const Shape& lengths = self.split_section_lengths();
                return lengths.empty() ? std::nullopt : std::optional(lengths);
              },
              "The lengths of the parts; None when split by count.")
          .form({argument<std::int64_t>("split_count", "The number of parts.", &kOneOrMore),
                 dimension()},
                [](const Given& given) {
                  return std::make_shared<Split>(given.get<std::int64_t>("split_count"),
                                                 given.get<std::int64_t>("dimension"));
                })
          .form({argument<Shape>("split_section_lengths", "The lengths of the parts.", &kOneOrMore),
                 dimension()},
                [](const Given& given) {
                  return std::make_shared<Split>(given.get<Shape>("split_section_lengths"),
                                                 given.get<std::int64_t>("dimension"));
                })
          .text(
              "Shapes: split_count parts of ceil(extent / split_count), the last may be smaller, "
              "or parts of the given lengths. Types: any, bit for bit. Gradient: joined at the "
              "same places. Errors: "
              "ValueError where the lengths do not sum to the extent, or equal parts are fewer "
              "than asked for.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Split>(std::int64_t{2}), {{{2, 2}, t}}};
          });
  return description;
}

const ClassDescription& Gather::class_description() {
  static const ClassDescription description =
      Describing<Gather, Layer>("MLCGatherLayer", "Picks from a tensor by index along one axis.")
          .argument("dimension", &Gather::dimension, "The axis that the indices count.")
          .in(kLimit)
          .made_of<std::int64_t>(
              "Sources: the tensor, indices. Shapes: indices of one axis pick slices; indices with "
              "as many axes as the tensor pick element by element. Types: any, bit for bit, and "
              "int32 or "
              "int64 indices. "
              "Gradient: added up where an element was picked. Errors: ValueError for an index out "
              "of range.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Gather>(1), {{{2, 2}, t}, {{1}, DataType::kInt64}}};
          });
  return description;
}

const ClassDescription& Scatter::class_description() {
  static const ClassDescription description =
      Describing<Scatter, Layer>("MLCScatterLayer",
                                 "A copy of a tensor with values written or added by index.")
          .argument("dimension", &Scatter::dimension, "The axis that the indices count.")
          .in(kLimit)
          .argument("reduction_type", &Scatter::reduction_type, "NONE overwrites, SUM adds.")
          .made_of<std::int64_t, ReductionType>(
              "Sources: values, indices, the tensor to copy. Shapes: values as Gather's result of "
              "the tensor, to the tensor's. Types: any, all of one, and int32 or int64 indices; "
              "NONE keeps bits, SUM adds 16 bits as float32. NONE "
              "overwrites: of several values for one element the last in row-major order stays. "
              "Gradient: NONE: of the value "
              "that stayed alone, 0 to the copied tensor there; SUM: of every value and of the "
              "copied tensor. Errors: ValueError for another reduction or an index out of range.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Scatter>(1, ReductionType::kNone),
                               {{{2, 1}, t}, {{1}, DataType::kInt64}, {{2, 2}, t}}};
          });
  return description;
}

const ClassDescription& Selection::class_description() {
  static const ClassDescription description =
      Describing<Selection, Layer>("MLCSelectionLayer",
                                   "Takes each element from one of two tensors.")
          .made_of<>(
              "Sources: a bool condition, x, y, which broadcast as NumPy does; x where the "
              "condition holds. Shapes: what they broadcast to. Types: any, both of one, bit for "
              "bit. Gradient: to the source that was taken. Errors: ValueError for shapes that do "
              "not broadcast, TypeError for another condition or mixed types.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Selection>(),
                               {{{2, 2}, DataType::kBoolean}, {{2, 2}, t}, {{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
