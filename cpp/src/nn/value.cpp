// Values and the functions of values, each a layer once it is drawn.
#include <algorithm>
#include <cmath>
#include <optional>

#include <traingraph/arithmetic.h>
#include <traingraph/comparison.h>
#include <traingraph/data_movement.h>
#include <traingraph/loss.h>
#include <traingraph/reduction.h>

#include "nn/expression.h"
#include "nn/layer_block.h"
#include "nn/loss_source.h"
#include "nn/losses.h"
#include "nn/meeting_batches.h"

namespace traingraph::nn {
namespace {

using Operation = ArithmeticOperation;
using Sources = std::vector<TensorPtr>;

Value made(std::string text, const std::vector<Value>& values, Expression::Make make) {
  std::vector<ExpressionPtr> sources;
  for (const Value& value : values) sources.push_back(value.expression());
  return Value(
      std::make_shared<const Expression>(std::move(text), std::move(sources), std::move(make)));
}

// A new layer over the sources, element by element.
template <class L, class... Parts>
Value elements(const char* text, const std::vector<Value>& values, Parts... parts) {
  return made(text, values, [=](Drawing& drawing, const Sources& sources, bool) {
    return drawing.graph->node(std::make_shared<L>(parts...),
                               meeting_batches(drawing, text, sources));
  });
}

Value reduced(const char* text, ReductionType type, const Value& x, Shape axes) {
  return made(text, {x}, [=](Drawing& drawing, const Sources& sources, bool) {
    Shape over;
    for (const std::int64_t axis : axes) over.push_back(axis_of(text, axis, sources[0]));
    const auto rank = static_cast<std::int64_t>(sources[0]->descriptor().shape.size());
    for (std::int64_t axis = 0; axes.empty() && axis < rank; ++axis) over.push_back(axis);
    const TensorPtr result =
        drawing.graph->node(std::make_shared<Reduction>(type, over), sources[0]);
    if (std::ranges::find(over, 0) != over.end()) drawing.without_batch.insert(result);
    return result;
  });
}

}  // namespace

Value::Value(double number) {
  if (std::isnan(number)) {
    throw InvalidArgument("[Value] expected a number but got nan, which all results would be");
  }
  auto expression = std::make_shared<Expression>(
      call_text("number", number), std::vector<ExpressionPtr>{},
      [number](Drawing& drawing, const Sources&, bool) {
        const bool overflows = std::isinf(static_cast<float>(number)) && std::isfinite(number);
        if (overflows && drawing.data_type != DataType::kFloat64) {
          throw InvalidArgument("[model] expected numbers within float32 but got " +
                                number_text(number) + "; float64 inputs make a network of float64");
        }
        return Tensor::filled(TensorDescriptor({1}, drawing.data_type), number);
      });
  expression->number = number;
  expression_ = std::move(expression);
}

const std::string& Value::text() const { return expression_->text; }

Value input(Shape shape, InputOptions options) {
  const bool has_some = std::ranges::all_of(shape, [](std::int64_t extent) { return extent > 0; });
  if (shape.empty() || shape.size() > 3 || !has_some) {
    throw ShapeError(
        "[Input] expected 1 to 3 extents behind the batch, all of at least 1, but got " +
        to_string(shape));
  }
  const std::string text = options.name.empty() ? "Input(" + to_string(shape) + ")" : options.name;
  auto expression = std::make_shared<Expression>(
      text, std::vector<ExpressionPtr>{}, [text](Drawing&, const Sources&, bool) -> TensorPtr {
        throw InvalidArgument("[model] expected '" + text +
                              "' among inputs, which an output reads");
      });
  expression->input = Expression::Input{std::move(shape), std::move(options)};
  return Value(std::move(expression));
}

Value Block::operator()(const Value& x) const {
  const ExpressionPtr& source = x.expression();
  return Value(std::make_shared<const Expression>(
      text(), std::vector<ExpressionPtr>{source},
      [block = *this](Drawing& drawing, const Sources& sources, bool before_rectifier) {
        return block(drawing.graph, sources[0], before_rectifier);
      },
      kind()));
}

Value Block::operator()(const Value& x, const Value& lengths) const {
  expect_sequences();
  const auto& given = lengths.expression()->input;
  if (given && given->options.data_type != DataType::kInt32) {
    const bool attends = text().starts_with("attention");
    throw DataTypeError("[" + text() + "] expected lengths of int32 behind the source but got " +
                        lengths.text() + " of " + name(given->options.data_type) +
                        (attends ? "; attention reads its one source as query, key and value"
                                 : "; declare them by Input(1, data_type='int32')"));
  }
  return made(text(), {x, lengths},
              [block = *this](Drawing& drawing, const Sources& sources, bool) {
                return block(drawing.graph, sources[0], sources[1]);
              });
}

Value operator+(const Value& a, const Value& b) {
  return elements<Arithmetic>("add", {a, b}, Operation::kAdd);
}
Value operator-(const Value& a, const Value& b) {
  return elements<Arithmetic>("subtract", {a, b}, Operation::kSubtract);
}
Value operator*(const Value& a, const Value& b) {
  return elements<Arithmetic>("multiply", {a, b}, Operation::kMultiply);
}
Value operator/(const Value& a, const Value& b) {
  return elements<Arithmetic>("divide", {a, b}, Operation::kDivide);
}
Value operator-(const Value& a) { return a * Value(-1.0); }
Value pow(const Value& a, const Value& b) {
  return elements<Arithmetic>("pow", {a, b}, Operation::kPow);
}
Value minimum(const Value& a, const Value& b) {
  return elements<Arithmetic>("minimum", {a, b}, Operation::kMin);
}
Value maximum(const Value& a, const Value& b) {
  return elements<Arithmetic>("maximum", {a, b}, Operation::kMax);
}
Value clip(const Value& x, const Value& least, const Value& most) {
  const std::optional<double> bounds[] = {least.expression()->number, most.expression()->number};
  if (bounds[0] && bounds[1] && *bounds[0] > *bounds[1]) {
    throw InvalidArgument("[clip] expected least of at most the most but got " +
                          number_text(*bounds[0]) + " and " + number_text(*bounds[1]));
  }
  return minimum(maximum(x, least), most);
}
Value abs(const Value& x) { return activation("absolute")(x); }
Value square(const Value& x) { return x * x; }
Value sqrt(const Value& x) { return elements<Arithmetic>("sqrt", {x}, Operation::kSqrt); }
Value exp(const Value& x) { return elements<Arithmetic>("exp", {x}, Operation::kExp); }
Value log(const Value& x) { return elements<Arithmetic>("log", {x}, Operation::kLog); }
Value sin(const Value& x) { return elements<Arithmetic>("sin", {x}, Operation::kSin); }
Value cos(const Value& x) { return elements<Arithmetic>("cos", {x}, Operation::kCos); }
Value tanh(const Value& x) { return elements<Arithmetic>("tanh", {x}, Operation::kTanh); }

Value operator<(const Value& a, const Value& b) {
  return elements<Comparison>("less", {a, b}, ComparisonOperation::kLess);
}
Value operator<=(const Value& a, const Value& b) {
  return elements<Comparison>("less_or_equal", {a, b}, ComparisonOperation::kLessOrEqual);
}
Value operator>(const Value& a, const Value& b) {
  return elements<Comparison>("greater", {a, b}, ComparisonOperation::kGreater);
}
Value operator>=(const Value& a, const Value& b) {
  return elements<Comparison>("greater_or_equal", {a, b}, ComparisonOperation::kGreaterOrEqual);
}
Value where(const Value& condition, const Value& x, const Value& y) {
  return made("where", {condition, x, y}, [](Drawing& drawing, const Sources& sources, bool) {
    const Sources met = meeting_batches(drawing, "where", sources);
    return drawing.graph->select({met[1], met[2]}, met[0]);
  });
}

Value mean(const Value& x, std::vector<std::int64_t> axes) {
  return reduced("mean", ReductionType::kMean, x, std::move(axes));
}
Value sum(const Value& x, std::vector<std::int64_t> axes) {
  return reduced("sum", ReductionType::kSum, x, std::move(axes));
}

Value concatenate(const std::vector<Value>& values, std::int64_t axis) {
  if (values.empty()) throw InvalidArgument("[concatenate] expected 1 or more values but got none");
  return made("concatenate", values, [axis](Drawing& drawing, const Sources& sources, bool) {
    const std::int64_t along = axis_of("concatenate", axis, sources[0]);
    return drawing.graph->node(std::make_shared<Concatenation>(along), sources);
  });
}
Value matmul(const Value& x, const Value& y) {
  return made("matmul", {x, y}, [](Drawing& drawing, const Sources& sources, bool) {
    return drawing.graph->node(std::make_shared<MatMul>(), meeting_matrices(drawing, sources));
  });
}
Value gather(const Value& x, const Value& indices, std::int64_t axis) {
  return made("gather", {x, indices}, [axis](Drawing& drawing, const Sources& sources, bool) {
    return drawing.graph->gather(axis_of("gather", axis, sources[0]), sources[0], sources[1]);
  });
}

Value stop_gradient(const Value& x) {
  return made("stop_gradient", {x}, [](Drawing& drawing, const Sources& sources, bool) {
    // What else reads x has its gradient.
    const TensorPtr result = drawing.graph->reshape(sources[0]->descriptor().shape, sources[0]);
    drawing.stopped.push_back(result);
    return result;
  });
}

Value loss(const std::string& name, const Value& prediction, const Value& labels) {
  LossDescriptor d;
  d.type = loss_named(name, "loss");
  d.reduction = ReductionType::kNone;
  const bool of_classes =
      d.type == LossType::kSoftmaxCrossEntropy || d.type == LossType::kCategoricalCrossEntropy;
  const Expression& given_labels = *labels.expression();
  if (of_classes && given_labels.number) {
    throw InvalidArgument("[loss] expected labels of '" + name +
                          "': an input of classes (int32) or of their probabilities, but got " +
                          labels.text() + ", which would be the probability of every class");
  }
  return made("loss", {prediction, labels}, [d](Drawing& drawing, const Sources& sources, bool) {
    const TensorPtr& p = sources[0];
    const Shape& shape = p->descriptor().shape;
    TensorPtr given = sources[1];
    const bool are_classes = !is_floating_point(given->descriptor().data_type);
    expect_classes_first(*drawing.graph, p, d.type, are_classes, "loss");
    expect_logits(*drawing.graph, p, d.type, "loss");
    expect_several_classes(p, d.type, "loss");
    if (given->data().bytes != nullptr && shape != Shape{1}) {
      // A number, in the prediction's shape, also where that is not finite.
      const auto less = std::make_shared<Comparison>(ComparisonOperation::kLess);
      given = drawing.graph->select({given, given}, drawing.graph->node(less, Sources{p, p}));
    }
    const TensorPtr result = drawing.graph->node(std::make_shared<Loss>(d), Sources{p, given});
    // With the axis of classes, as sums keep theirs.
    if (result->descriptor().shape.size() == shape.size() || shape.size() < 2) return result;
    Shape kept = shape;
    kept[1] = 1;
    return drawing.graph->reshape(kept, result);
  });
}

}  // namespace traingraph::nn
