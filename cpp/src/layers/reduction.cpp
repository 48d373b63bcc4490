// The reduction layer (sums, means, norms, extrema, logical) and the Gram matrix of images.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/reduction.h>

#include <algorithm>

#include "ir/extents.h"
#include "ir/number_text.h"
#include "layers/checks.h"
#include "layers/real_rows.h"

namespace traingraph {
namespace {

constexpr const char* kReductionTitles[] = {"None",   "Sum",    "Mean",   "Max", "Min",
                                            "ArgMax", "ArgMin", "L1Norm", "Any", "All"};
constexpr int kReductionCount = sizeof(kReductionTitles) / sizeof(kReductionTitles[0]);

bool finds_places(ReductionType type) {
  return type == ReductionType::kArgMax || type == ReductionType::kArgMin;
}

bool is_logical(ReductionType type) {
  return type == ReductionType::kAny || type == ReductionType::kAll;
}

[[noreturn]] void refuse_reduction(const std::string& text) {
  throw InvalidArgument("[Reduction] " + text);
}

// The largest or smallest element of `axes` (ascending), from the last run of neighbours on, which
// are one axis unless the batch is among them: so of equals the first one in row-major order stays.
ir::ValueId extremum(ir::Graph& graph, ir::ValueId x, const std::vector<int>& axes, bool largest) {
  for (std::size_t k = axes.size(); k-- > 0;) {
    const ir::Type type = graph.type(x);
    const auto last = static_cast<std::size_t>(axes[k]);
    std::size_t first = last;
    while (k > 0 && axes[k - 1] + 1 == axes[k] && !(type.batched && axes[k - 1] == 0)) {
      first = static_cast<std::size_t>(axes[--k]);
    }
    Shape joined = type.shape, result = type.shape;
    for (std::size_t axis = first; axis <= last; ++axis) result[axis] = 1;
    for (std::size_t axis = first + 1; axis <= last; ++axis) {
      joined[first] = ir::product(joined[first], type.shape[axis]);
    }
    joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                 joined.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    x = ops::reshape(graph, x, std::move(joined), type.batched);
    x = ops::apply1(graph, ir::Op::extremum,
                    ir::ExtremumAttributes{static_cast<int>(first), largest, false}, {x});
    x = ops::reshape(graph, x, std::move(result), graph.type(x).batched);
  }
  return x;
}

// 1 where x is not 0, else 0.
ir::ValueId marks(ir::Graph& graph, ir::ValueId x) {
  ir::ScalarList list{1, {}, {}};
  const int one = list.add(ir::Scalar::constant, -1, -1, 1);
  list.results = {list.add(ir::Scalar::where_nonzero, one, 0)};
  return ops::elementwise(graph, std::move(list), {x})[0];
}

}  // namespace

Reduction::Reduction(ReductionType reduction_type, std::int64_t dimension)
    : Reduction(reduction_type, Shape{dimension}) {}

Reduction::Reduction(ReductionType reduction_type, Shape dimensions)
    : Layer("Reduction"), reduction_type_(reduction_type), dimensions_(std::move(dimensions)) {
  const int type = static_cast<int>(reduction_type);
  if (type < 1 || type >= kReductionCount) {
    refuse_reduction("expected a reduction type from 1 to " + std::to_string(kReductionCount - 1) +
                     " but got " + std::to_string(type));
  }
  Shape sorted = dimensions_;
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (sorted.empty() || sorted[0] < 0 || twice) {
    refuse_reduction("expected different dimensions of at least 0 but got " +
                     to_string(dimensions_));
  }
  if (finds_places(reduction_type) && sorted.size() > 1) {
    refuse_reduction("expected one dimension for places but got " + to_string(dimensions_));
  }
}

std::string Reduction::description() const {
  return std::string("Reduction ") + kReductionTitles[static_cast<int>(reduction_type_)] +
         " dimensions " + to_string(dimensions_);
}

// x (…) → (…), 1 along the reduced axes.
void Reduction::emit(Emitter& e) const {
  e.expect_sources(1);
  const ir::Type type = e.type(0);
  const bool boolean = type.data_type == DataType::kBoolean;
  if (!(boolean && is_logical(reduction_type_))) expect_floating(e);
  if (*std::max_element(dimensions_.begin(), dimensions_.end()) >= type.rank()) {
    e.fail_shape("expected dimensions below the rank of " + to_string(type.shape) + " but got " +
                 to_string(dimensions_));
  }
  std::vector<int> axes(dimensions_.begin(), dimensions_.end());
  std::sort(axes.begin(), axes.end());
  ir::ValueId x = e.sources[0];
  const bool over_rows = axes.front() == 0;
  const auto sum = [&] {
    const ir::ValueId summed = over_rows ? real_rows(e.lowering, x) : x;
    return ops::reduce(e.graph, ir::ReduceKind::sum, summed, axes);
  };
  switch (reduction_type_) {
    case ReductionType::kSum:
      return e.result(sum());
    case ReductionType::kMean: {
      double count = 1;
      for (int axis : axes)
        count *= static_cast<double>(type.shape[static_cast<std::size_t>(axis)]);
      if (over_rows) return e.result(mean_of_rows(e.lowering, sum(), type, 1, count));
      return e.result(ops::unary(e.graph, ir::Scalar::scale, sum(), 1 / count));
    }
    case ReductionType::kL1Norm:
      x = ops::unary(e.graph, ir::Scalar::absolute, x);
      return e.result(sum());
    case ReductionType::kMax:
    case ReductionType::kMin:
      return e.result(extremum(e.graph, x, axes, reduction_type_ == ReductionType::kMax));
    case ReductionType::kAny:
    case ReductionType::kAll:
      if (!boolean) x = marks(e.graph, x);
      return e.result(extremum(e.graph, x, axes, reduction_type_ == ReductionType::kAny));
    default: {
      const ir::ExtremumAttributes attributes{axes[0], reduction_type_ == ReductionType::kArgMax,
                                              true};
      const ir::NodeId node = ops::apply(e.graph, ir::Op::extremum, attributes, {x});
      return e.result(e.graph.node(node).outputs[1]);
    }
  }
}

namespace {

Argument reduction_argument() {
  auto reduction =
      argument<ReductionType>("reduction_type", "Sum, mean, maximum or another reduction.");
  reduction.accepted =
      R"("sum", "mean", "max", "min", "arg_max", "arg_min", "l1_norm", "any", "all")";
  return reduction;
}

}  // namespace

const ClassDescription& Reduction::class_description() {
  static const ClassDescription description =
      Describing<Reduction, Layer>("MLCReductionLayer", "Makes one number of each row of numbers.")
          .property("reduction_type", &Reduction::reduction_type,
                    "Sum, mean, maximum or another reduction.")
          .property("dimension", &Reduction::dimension, "The first of the axes.")
          .property("dimensions", &Reduction::dimensions, "The axes.")
          .form({reduction_argument(), argument<std::int64_t>("dimension", "The axis.", &kLimit)},
                [](const Given& given) {
                  return std::make_shared<Reduction>(given.get<ReductionType>("reduction_type"),
                                                     given.get<std::int64_t>("dimension"));
                })
          .form({reduction_argument(), argument<Shape>("dimensions", "The axes.", &kLimit)},
                [](const Given& given) {
                  return std::make_shared<Reduction>(given.get<ReductionType>("reduction_type"),
                                                     given.get<Shape>("dimensions"));
                })
          .text(
              "SUM, MEAN, MAX, MIN, L1_NORM (the sum of |x|), ANY and ALL over any axes, ARG_MAX "
              "and "
              "ARG_MIN along one. Shapes: the reduced axes stay with extent 1. Types: "
              "floating-point numbers; ANY and ALL also bool, to bool, and of numbers, of which "
              "all "
              "but 0 are true, 0 or 1. Places are float32. Of equals the first in row-major order "
              "counts, and NaN before numbers. Gradient: SUM dy, MEAN dy / count, L1_NORM sign(x) "
              "dy "
              "with sign(0) = 0, MAX and MIN dy where the element was taken, else 0; the others 0. "
              "Errors: ValueError for NONE, an axis twice or beyond the rank, and places along "
              "several, TypeError for other types. Source: "
              "developer.apple.com/documentation/mlcompute/mlcreductionlayer.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Reduction>(ReductionType::kSum, 1), {{{2, 2}, t}}};
          });
  return description;
}

GramMatrix::GramMatrix(float scale) : Layer("GramMatrix"), scale_(scale) {}

std::string GramMatrix::description() const { return "GramMatrix scale " + short_text(scale_); }

// x (N, C, H, W) → y (N, C, 1, C).
void GramMatrix::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  const ir::Type type = e.type(0);
  if (type.rank() != 4)
    e.fail_shape("expected a source (N, C, H, W) but got " + to_string(type.shape));
  const Shape& s = type.shape;
  const ir::ValueId rows =
      ops::reshape(e.graph, e.sources[0], {s[0], s[1], s[2] * s[3]}, type.batched);
  const ir::ValueId products =
      ops::matmul(e.graph, rows, rows, false, true, static_cast<double>(scale_));
  e.result(ops::reshape(e.graph, products, {s[0], s[1], 1, s[1]}, type.batched));
}

const ClassDescription& GramMatrix::class_description() {
  static const ClassDescription description =
      Describing<GramMatrix, Layer>("MLCGramMatrixLayer",
                                    "The products of all pairs of channels of an image.")
          .argument("scale", &GramMatrix::scale, "The factor of the whole.")
          .made_of<float>(
              "Shapes: x (N, C, H, W) to (N, C, 1, C). Types: floating-point numbers. Formula: "
              "y[n, c, 0, f] = scale * sum over h and w of x[n, f, h, w] x[n, c, h, w]. Gradient: "
              "dx[n, f] = scale * sum over c of (dy[n, f, 0, c] + dy[n, c, 0, f]) x[n, c]. Errors: "
              "ValueError for another rank, TypeError for other types. Source: "
              "developer.apple.com/documentation/mlcompute/mlcgrammatrixlayer.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<GramMatrix>(1.0f), {{{1, 2, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
