// Networks with branches: inputs, calls of blocks on them, and expressions, which a model draws
// into a graph.
//
//   const nn::Value x = nn::input({8}), y = nn::input({1}, {.name = "y"});
//   const nn::Value p = nn::dense(1)(x + nn::dense(8)(x));
//   auto model = nn::model({.inputs = {x}, .outputs = {p}, .loss = nn::mean(nn::abs(p - y))});
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/types.h>

namespace traingraph::nn {

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

// A tensor of a network that is still to be made: an input, what a block or a function gives, or a
// number. Axis 0 is the batch.
class TRAINGRAPH_API Value {
 public:
  // Raises InvalidArgument of NaN. Infinity is a number, as of a mask.
  Value(double number);
  explicit Value(ExpressionPtr expression) : expression_(std::move(expression)) {}
  const ExpressionPtr& expression() const { return expression_; }
  // "dense(64)", or an input's name.
  const std::string& text() const;

 private:
  ExpressionPtr expression_;
};

struct InputOptions {
  std::string name = {};  // empty: the model's "x", or "y" for labels
  DataType data_type = DataType::kFloat32;
};
// An array of the caller's, (N, …) with this shape of a sample.
TRAINGRAPH_API Value input(Shape shape, InputOptions options = {});

// Element by element; extents of 1 broadcast, but values of the batch have one rank, or the model
// raises ShapeError. Numbers, and what is reduced over axis 0, are not of the batch.
TRAINGRAPH_API Value operator+(const Value& a, const Value& b);
TRAINGRAPH_API Value operator-(const Value& a, const Value& b);
TRAINGRAPH_API Value operator*(const Value& a, const Value& b);
TRAINGRAPH_API Value operator/(const Value& a, const Value& b);
TRAINGRAPH_API Value operator-(const Value& a);
TRAINGRAPH_API Value pow(const Value& a, const Value& b);
TRAINGRAPH_API Value minimum(const Value& a, const Value& b);
TRAINGRAPH_API Value maximum(const Value& a, const Value& b);
// Raises InvalidArgument of two numbers of which the least is larger.
TRAINGRAPH_API Value clip(const Value& x, const Value& least, const Value& most);
TRAINGRAPH_API Value abs(const Value& x);
TRAINGRAPH_API Value square(const Value& x);
TRAINGRAPH_API Value sqrt(const Value& x);
TRAINGRAPH_API Value exp(const Value& x);
TRAINGRAPH_API Value log(const Value& x);
TRAINGRAPH_API Value sin(const Value& x);
TRAINGRAPH_API Value cos(const Value& x);
TRAINGRAPH_API Value tanh(const Value& x);
// Truth values.
TRAINGRAPH_API Value operator<(const Value& a, const Value& b);
TRAINGRAPH_API Value operator<=(const Value& a, const Value& b);
TRAINGRAPH_API Value operator>(const Value& a, const Value& b);
TRAINGRAPH_API Value operator>=(const Value& a, const Value& b);
TRAINGRAPH_API Value where(const Value& condition, const Value& x, const Value& y);

// Over these axes, of which the batch is 0, or over all of them; they stay with extent 1.
TRAINGRAPH_API Value mean(const Value& x, std::vector<std::int64_t> axes = {});
TRAINGRAPH_API Value sum(const Value& x, std::vector<std::int64_t> axes = {});

// Joined along an axis.
TRAINGRAPH_API Value concatenate(const std::vector<Value>& values, std::int64_t axis = 1);
// The matrix product of the last two axes, of each sample.
TRAINGRAPH_API Value matmul(const Value& x, const Value& y);
// Per row the elements along an axis that whole numbers name.
TRAINGRAPH_API Value gather(const Value& x, const Value& indices, std::int64_t axis = 1);
// The same value, through which no gradient flows.
TRAINGRAPH_API Value stop_gradient(const Value& x);
// A loss layer's values, by a model's names, of each row or element; of a loss over classes their
// axis has extent 1. Labels may be a number.
TRAINGRAPH_API Value loss(const std::string& name, const Value& prediction, const Value& labels);

}  // namespace traingraph::nn
