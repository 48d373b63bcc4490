// What a Value stands for, and how a model draws it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <traingraph/nn.h>

namespace traingraph::nn {

// The graph that a model fills.
struct Drawing {
  GraphPtr graph;
  std::int64_t batch_size;
  DataType data_type = DataType::kFloat32;  // of numbers
  std::vector<TensorPtr> stopped = {};      // no gradient flows through them
  std::set<TensorPtr> without_batch = {};   // axis 0 is no batch: numbers, and means over it
  bool has_batch(const TensorPtr& tensor) const { return !without_batch.contains(tensor); }
};

struct Expression {
  using Make = std::function<TensorPtr(Drawing& drawing, const std::vector<TensorPtr>& sources,
                                       bool before_rectifier)>;
  struct Input {
    Shape shape;  // of a sample
    InputOptions options;
  };

  Expression(std::string text, std::vector<ExpressionPtr> sources, Make make,
             Block::Kind kind = Block::Kind::kOther);
  ~Expression();
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  std::string text;
  mutable std::vector<ExpressionPtr> sources;  // given away when its last holder goes
  Make make;
  Block::Kind kind;
  std::optional<Input> input = {};
  std::optional<double> number = {};
};

// These and what they read, each after its sources.
std::vector<const Expression*> in_order(const std::vector<Value>& values);

using Drawn = std::map<const Expression*, TensorPtr>;
// Inputs are there already.
void draw(const std::vector<const Expression*>& order, Drawing& drawing, Drawn& drawn);

}  // namespace traingraph::nn
