// How the sources of a function broadcast where their batches meet, and how they do not.
#include "nn/meeting_batches.h"

#include <algorithm>
#include <optional>

#include <traingraph/errors.h>

namespace traingraph::nn {
namespace {

using Axis = Shape::difference_type;

Axis rank_of(const TensorPtr& tensor) {
  return static_cast<Axis>(tensor->descriptor().shape.size());
}

bool broadcast(const Shape& a, const Shape& b) {
  return std::ranges::equal(
      a, b, [](std::int64_t m, std::int64_t n) { return m == n || m == 1 || n == 1; });
}

// The shape of a sample that has as many axes as `other`'s, where one fits: channels of images come
// first, other axes last.
std::optional<Shape> fitting(const Shape& shape, const Shape& other) {
  const std::size_t missing = other.size() - shape.size();
  for (const auto at : {Axis(shape.size()), Axis(1)}) {
    Shape whole = shape;
    whole.insert(whole.begin() + at, missing, 1);
    if (broadcast(Shape(whole.begin() + 1, whole.end()), Shape(other.begin() + 1, other.end()))) {
      return Shape(whole.begin() + 1, whole.end());
    }
  }
  return std::nullopt;
}

// [subtract] expected a batch on axis 0 to meet a batch but got (32, 1, 1) and (32, 1), …
[[noreturn]] void refuse_ranks(const char* function, const TensorPtr& longer,
                               const TensorPtr& shorter) {
  const Shape &more = longer->descriptor().shape, &less = shorter->descriptor().shape;
  const std::optional<Shape> sample = fitting(less, more);
  throw ShapeError(
      "[" + std::string(function) +
      "] expected values of one rank, so that no other "
      "axis meets the batch, but got " +
      to_string(more) + " and " + to_string(less) + ", whose batch meets axis " +
      std::to_string(more.size() - less.size()) + "; " +
      (sample ? "reshape(" + to_string(*sample) + ") gives " + to_string(less) + " the missing axes"
              : "reshape() gives one of them the other's axes"));
}

}  // namespace

std::vector<TensorPtr> meeting_batches(Drawing& drawing, const char* function,
                                       std::vector<TensorPtr> sources) {
  TensorPtr first;  // with the batch
  for (const TensorPtr& source : sources) {
    if (!drawing.has_batch(source)) continue;
    if (first == nullptr) first = source;
    if (rank_of(source) > rank_of(first)) refuse_ranks(function, source, first);
    if (rank_of(source) < rank_of(first)) refuse_ranks(function, first, source);
  }
  if (first == nullptr) return sources;
  for (TensorPtr& source : sources) {
    const Axis extra = rank_of(source) - rank_of(first);
    if (extra <= 0) continue;
    const Shape& shape = source->descriptor().shape;
    const auto own = shape.begin() + extra + 1;  // what is behind the other's batch
    if (std::any_of(shape.begin(), own, [](std::int64_t extent) { return extent != 1; })) {
      refuse_ranks(function, source, first);
    }
    source = drawing.graph->reshape(Shape(shape.begin() + extra, shape.end()), source);
    drawing.without_batch.insert(source);
  }
  return sources;
}

std::vector<TensorPtr> meeting_matrices(Drawing& drawing, std::vector<TensorPtr> factors) {
  const bool has_batch[] = {drawing.has_batch(factors[0]), drawing.has_batch(factors[1])};
  const bool contracts = has_batch[1] && rank_of(factors[1]) == 2;
  const bool differs = has_batch[0] && has_batch[1] && rank_of(factors[0]) != rank_of(factors[1]);
  if (contracts || differs) {
    throw ShapeError("[matmul] expected matrices of each sample, (N, rows, columns), but got " +
                     to_string(factors[0]->descriptor().shape) + " and " +
                     to_string(factors[1]->descriptor().shape) +
                     ", whose product would mix samples; reshape() makes matrices of rows");
  }
  return meeting_batches(drawing, "matmul", std::move(factors));
}

}  // namespace traingraph::nn
