// Comparisons of broadcast operands, and classes as ones between zeros. Types of whole bytes have
// loops that the compiler vectorises; 16 bits are the reference's.
#include <algorithm>
#include <functional>

#include "backends/cpu/cpu.h"
#include "backends/cpu/operand_tile.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

template <class T>
using Loop = void (*)(const T* x, const T* y, std::uint8_t* r, std::int64_t n);

template <class T, class Holds>
void loop(const T* x, const T* y, std::uint8_t* r, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) r[i] = Holds()(x[i], y[i]) ? 1 : 0;
}

template <class T>
Loop<T> loop_of(ir::Comparison comparison) {
  const auto of = [](auto holds) { return loop<T, decltype(holds)>; };
  switch (comparison) {
    case ir::Comparison::equal:
      return of(std::equal_to<T>());
    case ir::Comparison::not_equal:
      return of(std::not_equal_to<T>());
    case ir::Comparison::less:
      return of(std::less<T>());
    case ir::Comparison::greater:
      return of(std::greater<T>());
    case ir::Comparison::less_or_equal:
      return of(std::less_equal<T>());
    case ir::Comparison::greater_or_equal:
      return of(std::greater_equal<T>());
    case ir::Comparison::logical_and:
      return of([](T x, T y) { return (x != T(0)) & (y != T(0)); });
    case ir::Comparison::logical_or:
      return of([](T x, T y) { return (x != T(0)) | (y != T(0)); });
    case ir::Comparison::logical_not:
      return of([](T x, T) { return x == T(0); });
    case ir::Comparison::logical_nand:
      return of([](T x, T y) { return (x == T(0)) | (y == T(0)); });
    case ir::Comparison::logical_nor:
      return of([](T x, T y) { return (x == T(0)) & (y == T(0)); });
    case ir::Comparison::logical_xor:
      return of([](T x, T y) { return (x != T(0)) != (y != T(0)); });
  }
  return nullptr;
}

template <class T>
class Compare final : public Kernel {
 public:
  Compare(const ir::Graph& graph, const ir::Node& node)
      : loop_(loop_of<T>(std::get<ir::CompareAttributes>(node.attributes).comparison)),
        x_(node.inputs[0]),
        y_(node.inputs.back()),
        result_(node.outputs[0]),
        elements_(graph.type(result_).elements()) {
    const Shape& shape = graph.type(result_).shape;
    view_x_ = view_of(graph.type(x_).shape, shape, {});
    view_y_ = view_of(graph.type(y_).shape, shape, {});
    threads_ = threads_for(nanoseconds_to_move(static_cast<double>(2 * sizeof(T) + 1) *
                                               static_cast<double>(elements_)));
  }

  void run(Pointers pointers) override {
    parallel_for(parts_of_tiles(elements_), threads_, [&](std::int64_t part) {
      Tile<T> x(view_x_, reinterpret_cast<const T*>(pointers[x_]));
      Tile<T> y(view_y_, reinterpret_cast<const T*>(pointers[y_]));
      auto* const result = reinterpret_cast<std::uint8_t*>(pointers[result_]);
      for_each_tile(elements_, part, [&](std::int64_t begin, std::int64_t count) {
        loop_(x.at(begin, count), y.at(begin, count), result + begin, count);
      });
    });
  }

 private:
  Loop<T> loop_;
  ir::ValueId x_, y_, result_;
  std::int64_t elements_;
  OperandView view_x_, view_y_;
  int threads_ = 1;
};

Support supports_compare(const ir::Graph& graph, const ir::Node& node) {
  if (!ir::is_half(graph.type(node.inputs[0]).data_type)) return {};
  return Support::no("hand-written loops compare no numbers of 16 bits");
}

std::unique_ptr<Kernel> make_compare(const ir::Graph& graph, const ir::Node& node) {
  switch (graph.type(node.inputs[0]).data_type) {
    case DataType::kFloat64:
      return std::make_unique<Compare<double>>(graph, node);
    case DataType::kInt8:
      return std::make_unique<Compare<std::int8_t>>(graph, node);
    case DataType::kInt32:
      return std::make_unique<Compare<std::int32_t>>(graph, node);
    case DataType::kInt64:
      return std::make_unique<Compare<std::int64_t>>(graph, node);
    case DataType::kFloat32:
      return std::make_unique<Compare<float>>(graph, node);
    default:
      return std::make_unique<Compare<std::uint8_t>>(graph, node);
  }
}

// Classes (N, 1, inner) → (N, K, inner).
class OneHot final : public Kernel {
 public:
  OneHot(const ir::Graph& graph, const ir::Node& node)
      : classes_(node.inputs[0]),
        result_(node.outputs[0]),
        wide_(graph.type(classes_).data_type == DataType::kInt64),
        depth_(std::get<ir::OneHotAttributes>(node.attributes).classes),
        positions_(graph.type(classes_).elements()) {
    const Shape& shape = graph.type(classes_).shape;
    for (std::size_t k = 2; k < shape.size(); ++k) inner_ *= shape[k];
  }

  void run(Pointers pointers) override {
    float* const result = reinterpret_cast<float*>(pointers[result_]);
    std::fill_n(result, positions_ * depth_, 0.0f);
    if (wide_) {
      mark(reinterpret_cast<const std::int64_t*>(pointers[classes_]), result);
    } else {
      mark(reinterpret_cast<const std::int32_t*>(pointers[classes_]), result);
    }
  }

 private:
  template <class Integer>
  void mark(const Integer* classes, float* result) const {
    for (std::int64_t position = 0; position < positions_; ++position) {
      const auto at = static_cast<std::int64_t>(classes[position]);
      if (at < 0) continue;
      result[(position / inner_ * depth_ + at) * inner_ + position % inner_] = 1;
    }
  }

  ir::ValueId classes_, result_;
  bool wide_;
  std::int64_t depth_, positions_, inner_ = 1;
};

Support supports_one_hot(const ir::Graph& graph, const ir::Node& node) {
  if (graph.type(node.outputs[0]).data_type == DataType::kFloat32) return {};
  return Support::no("hand-written loops write float32");
}

std::unique_ptr<Kernel> make_one_hot(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<OneHot>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& compare_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::compare, supports_compare, make_compare, nullptr, nullptr},
      KernelEntry{ir::Op::one_hot, supports_one_hot, make_one_hot, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
