// The order of expressions, and how they are drawn into a graph.
#include "nn/expression.h"

#include <algorithm>
#include <set>
#include <utility>

#include <traingraph/errors.h>

namespace traingraph::nn {

Expression::Expression(std::string text, std::vector<ExpressionPtr> sources, Make make,
                       Block::Kind kind)
    : text(std::move(text)), sources(std::move(sources)), make(std::move(make)), kind(kind) {}

// One after another: a chain may be longer than the stack.
Expression::~Expression() {
  std::vector<ExpressionPtr> left = std::move(sources);
  while (!left.empty()) {
    const ExpressionPtr last = std::move(left.back());
    left.pop_back();
    if (last.use_count() != 1) continue;
    std::vector<ExpressionPtr>& inner = last->sources;
    std::move(inner.begin(), inner.end(), std::back_inserter(left));
    inner.clear();
  }
}

std::vector<const Expression*> in_order(const std::vector<Value>& values) {
  std::vector<const Expression*> order;
  std::set<const Expression*> known;
  std::vector<std::pair<const Expression*, bool>> left;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    left.emplace_back(value->expression().get(), false);
  }
  while (!left.empty()) {
    const auto [expression, is_ready] = left.back();
    left.pop_back();
    if (is_ready) {
      order.push_back(expression);
      continue;
    }
    if (!known.insert(expression).second) continue;
    left.emplace_back(expression, true);
    const auto& sources = expression->sources;
    for (auto source = sources.rbegin(); source != sources.rend(); ++source) {
      left.emplace_back(source->get(), false);
    }
  }
  return order;
}

void draw(const std::vector<const Expression*>& order, Drawing& drawing, Drawn& drawn) {
  std::set<const Expression*> before_rectifiers;
  for (auto one = order.rbegin(); one != order.rend(); ++one) {
    const bool passes = (*one)->kind == Block::Kind::kThrough && before_rectifiers.contains(*one);
    if ((*one)->kind != Block::Kind::kRectifier && !passes) continue;
    for (const ExpressionPtr& source : (*one)->sources) before_rectifiers.insert(source.get());
  }
  const auto tensor_of = [&](const Expression* one, const std::vector<TensorPtr>& sources) {
    const auto known = drawn.find(one);
    if (known != drawn.end()) return known->second;
    const TensorPtr made = one->make(drawing, sources, before_rectifiers.contains(one));
    if (made->descriptor().data_type == DataType::kFloat64) drawing.data_type = DataType::kFloat64;
    const auto has_batch = [&](const TensorPtr& source) { return drawing.has_batch(source); };
    const bool lost_it = drawing.batch_size > 1 && made->descriptor().shape.front() == 1;
    if (lost_it || std::ranges::none_of(sources, has_batch)) drawing.without_batch.insert(made);
    return drawn.emplace(one, made).first->second;
  };
  const auto is_number = [](const Expression* one) { return one->number.has_value(); };
  // A number is made when it is read: it has the type of what is computed with it.
  for (const Expression* one : order) {
    if (is_number(one)) continue;
    std::vector<TensorPtr> sources;
    for (const ExpressionPtr& source : one->sources) {
      sources.push_back(tensor_of(source.get(), {}));
    }
    tensor_of(one, sources);
  }
  for (const Expression* one : order) tensor_of(one, {});
}

}  // namespace traingraph::nn
