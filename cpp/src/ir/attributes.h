// Attributes of the ops. Each struct lists its fields once, in `fields`, for what prints or reads
// them: f(name, field); f.unless_empty for one that is not printed where it is what it is at the
// beginning, f.unprinted for one that never is.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/attention_attributes.h"
#include "ir/batch_norm_attributes.h"
#include "ir/distinct.h"
#include "ir/embedding_attributes.h"
#include "ir/lstm_attributes.h"
#include "ir/row_norm_attributes.h"
#include "ir/scalar.h"
#include "ir/type.h"

namespace traingraph::ir {

struct NoAttributes {
  template <class Self, class F>
  static void fields(Self&, F&&) {}
  bool operator==(const NoAttributes&) const = default;
};

// A list of scalar functions over inputs that broadcast against each other and against `shape`
// (empty: the inputs alone decide); one result per list result. Inputs and results may be any mix
// of float32, float16 and bfloat16; what is computed between them is float32. Float64 stands alone.
struct ElementwiseAttributes {
  ScalarList list;
  Shape shape;
  bool shape_batched = false;  // whether axis 0 of `shape` is the batch
  // One per result; empty: of the inputs' joint type (ir::joint_type). A cast is an identity whose
  // result has another type than its input.
  std::vector<DataType> result_types = {};
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("list", a.list);
    f.unless_empty("shape", a.shape);
    f.unprinted("shape_batched", a.shape_batched);
    f.unless_empty("result_types", a.result_types);
  }
  bool operator==(const ElementwiseAttributes&) const = default;
};

// norm: the root of the sum of squares, which may themselves be too large or too small for the
// type. not_finite: how many elements are NaN or infinite.
enum class ReduceKind { sum, norm, not_finite };

// Reduced axes stay with extent 1. Operands of 16 bits give float32.
struct ReduceAttributes {
  ReduceKind kind = ReduceKind::sum;
  std::vector<int> axes;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("kind", a.kind);
    f("axes", a.axes);
  }
  bool operator==(const ReduceAttributes&) const = default;
};

// A window that moves over the last two axes. Padding is explicit here: policies are resolved when
// the layer is written as ops.
struct Window {
  std::int64_t kernel[2] = {1, 1};
  std::int64_t stride[2] = {1, 1};
  std::int64_t dilation[2] = {1, 1};
  std::int64_t padding_before[2] = {0, 0};  // top, left
  std::int64_t padding_after[2] = {0, 0};   // bottom, right
  bool operator==(const Window&) const = default;
};

// Forward: x, weights [, epilogue inputs] → y. `epilogue` starts from the bare result.
struct ConvolutionAttributes {
  Window window;
  std::int64_t groups = 1;
  // Extents that a gradient op cannot see: of x for gradient_data, of the weights for
  // gradient_weights.
  Shape result_shape;
  ScalarList epilogue;
  bool tf32 = false;  // float32 operands may be rounded to TF32
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("window", a.window);
    f("groups", a.groups);
    f.unprinted("result_shape", a.result_shape);
    f("epilogue", a.epilogue);
    f("tf32", a.tf32);
  }
  bool operator==(const ConvolutionAttributes&) const = default;
};

// alpha * op(a) op(b) on the last two axes, leading axes broadcast. a and b have one type.
struct MatmulAttributes {
  double alpha = 1;
  bool transpose_a = false;
  bool transpose_b = false;
  ScalarList epilogue;
  bool tf32 = false;  // float32 operands may be rounded to TF32
  // kFloat32 over operands of 16 bits; kInvalid: of the operands' type.
  DataType result_type = DataType::kInvalid;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("alpha", a.alpha);
    f("transpose_a", a.transpose_a);
    f("transpose_b", a.transpose_b);
    f("epilogue", a.epilogue);
    f("tf32", a.tf32);
    f.unless_empty("result_type", a.result_type);
  }
  bool operator==(const MatmulAttributes&) const = default;
};

enum class PoolingKind { max, average, l2_norm };

// pooling: x → y [, window index for max in training: uint8, int32 for kernels above 255 elements].
// pooling_gradient: max: dy, index; average: dy; L2: dy, x, y → dx.
struct PoolingAttributes {
  PoolingKind kind = PoolingKind::max;
  Window window;
  bool count_includes_padding = false;
  bool with_index = false;
  Shape source_shape;  // of x, for the gradient
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("kind", a.kind);
    f("window", a.window);
    f("count_includes_padding", a.count_includes_padding);
    f("with_index", a.with_index);
    f.unprinted("source_shape", a.source_shape);
  }
  bool operator==(const PoolingAttributes&) const = default;
};

struct SoftmaxAttributes {
  bool logarithm = false;
  int axis = 1;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("logarithm", a.logarithm);
    f("axis", a.axis);
  }
  bool operator==(const SoftmaxAttributes&) const = default;
};

// softmax_cross_entropy: logits (N, K, …), labels → loss, log Σ e^(x - max x), both (N, 1, …).
// softmax_cross_entropy_gradient: dloss, logits, labels, that logarithm → dlogits. The largest
// logit is subtracted first and never added again: what logits have in common may be large. Labels:
// a distribution of the logits' shape, or integer classes (N, 1, …); class -1 ignores the position,
// other classes are in range. Smoothing s: t (1 - s) + s / classes, 0 classes meaning K.
struct CrossEntropyAttributes {
  double smoothing = 0;
  std::int64_t classes = 0;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("smoothing", a.smoothing);
    f("classes", a.classes);
  }
  bool operator==(const CrossEntropyAttributes&) const = default;
};

struct AxisAttributes {
  int axis = 0;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
  }
  bool operator==(const AxisAttributes&) const = default;
};

// Elements start … start + extent - 1 of one axis.
struct SliceAttributes {
  int axis = 0;
  std::int64_t start = 0;
  std::int64_t extent = 1;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
    f("start", a.start);
    f("extent", a.extent);
  }
  bool operator==(const SliceAttributes&) const = default;
};

// Sources that differ in the extent of one axis alone, each from its start on, in ascending order
// and beside each other; zeros between them up to `extent` elements of the axis.
struct PadAttributes {
  int axis = 0;
  std::vector<std::int64_t> starts;
  std::int64_t extent = 1;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
    f("starts", a.starts);
    f("extent", a.extent);
  }
  bool operator==(const PadAttributes&) const = default;
};

// condition, x, y → x where the condition holds, else y. Without y that is zero; `where_not`: x
// where the condition does not hold.
struct SelectAttributes {
  bool where_not = false;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("where_not", a.where_not);
  }
  bool operator==(const SelectAttributes&) const = default;
};

// Indices pick from a tensor along one axis: slices where they have rank 1, else elements, with the
// shape of the indices.
// gather: tensor, indices → what they pick.
// scatter: values, indices, tensor → the tensor with values at what the indices pick; of several
// values for one element the last in row-major order stays, or all are added. Without a tensor it
// is one of zeros, of the shape `onto`.
// scatter_gradient: dy, indices → dvalues, dtensor, and per element of the tensor the position of
// the value it took or -1 (int64). For a scatter that does not add.
struct ScatterAttributes {
  int axis = 0;
  bool adds = false;
  Shape onto = {};
  bool onto_batched = false;  // whether axis 0 of `onto` is the batch
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
    f("adds", a.adds);
    f.unless_empty("onto", a.onto);
    f.unprinted("onto_batched", a.onto_batched);
  }
  bool operator==(const ScatterAttributes&) const = default;
};

// Two operands of one type that broadcast, or one boolean operand of logical_not → bool.
enum class Comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  greater,
  less_or_equal,
  greater_or_equal,
  logical_and,
  logical_or,
  logical_not,
  logical_nand,
  logical_nor,
  logical_xor,
};

struct CompareAttributes {
  Comparison comparison = Comparison::equal;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("comparison", a.comparison);
  }
  bool operator==(const CompareAttributes&) const = default;
};

// x → the largest or smallest element along one axis, which stays with extent 1, and its place
// there: int32, or a float32 number. Of equals the first one, and NaN before numbers.
struct ExtremumAttributes {
  int axis = 0;
  bool largest = true;
  bool numbers = false;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
    f("largest", a.largest);
    f("numbers", a.numbers);
  }
  bool operator==(const ExtremumAttributes&) const = default;
};

// Classes (N, 1, …), int32 or int64 → (N, classes, …) of this floating-point type: 1 at the class
// and 0 elsewhere; 0 everywhere for class -1. Other classes are in range.
struct OneHotAttributes {
  std::int64_t classes = 1;
  DataType type = DataType::kFloat32;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("classes", a.classes);
    f("type", a.type);
  }
  bool operator==(const OneHotAttributes&) const = default;
};

// No operands → these numbers, as many as elements, or one for all. Written when a program is made.
struct ConstantAttributes {
  Type type;
  std::vector<double> numbers;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("type", a.type.data_type);
    f("shape", a.type.shape);
    f("numbers", a.numbers);
  }
  bool operator==(const ConstantAttributes&) const = default;
};

struct ReshapeAttributes {
  Shape shape;
  bool batched = false;  // whether axis 0 of the result is the batch
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("shape", a.shape);
    f.unprinted("batched", a.batched);
  }
  bool operator==(const ReshapeAttributes&) const = default;
};

struct TransposeAttributes {
  std::vector<int> axes;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axes", a.axes);
  }
  bool operator==(const TransposeAttributes&) const = default;
};

// x, step (int64 scalar) → x * mask / (1 - rate); the mask is a function of seed, step and element.
struct DropoutAttributes {
  double rate = 0;
  std::uint64_t seed = 0;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("rate", a.rate);
    f("seed", a.seed);
  }
  bool operator==(const DropoutAttributes&) const = default;
};

// rows, rows of the global batch (int64 scalars), arrays of one floating-point type → for each
// array the sum over all ranks. `ranks`: what they are known by in this process. `graph`: the
// number of the graph among those that they have compiled. `in_bfloat16`: float32 travels so; each
// rank's numbers are rounded, added in float32, and the sum is rounded.
struct AllReduceAttributes {
  int ranks = 0;
  int graph = 0;
  bool in_bfloat16 = false;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f.unprinted("ranks", a.ranks);
    f.unprinted("graph", a.graph);
    f("in_bfloat16", a.in_bfloat16);
  }
  bool operator==(const AllReduceAttributes&) const = default;
};

// A kernel that a backend's library has under this name, with its properties: of one within another
// "outer.inner", of a list "name.0" and so on. The operands are the library's matter; the last
// "missing_operands" are not given, and behind them "running_numbers" scalars change in each run.
struct NamedKernelAttributes {
  std::string name;
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<Type> results;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("name", a.name);
    f("numbers", a.numbers);
  }
  bool operator==(const NamedKernelAttributes&) const = default;
};

// Those of the table of ops.
using Attributes = Distinct<std::variant<NoAttributes>
#define TRAINGRAPH_OP(name, attributes, cpu) , attributes
#include "ops.def"
#undef TRAINGRAPH_OP
                            >::type;

std::string to_string(const Attributes& attributes);

}  // namespace traingraph::ir
