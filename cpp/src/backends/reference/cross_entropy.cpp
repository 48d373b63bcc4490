// Softmax cross entropy and its gradient, position by position in float64.
#include <algorithm>
#include <limits>

#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

// Labels of one op: t' = t (1 - s) + s / K, from a distribution (N, K, …) or from classes (N, 1, …)
// of which -1 ignores the position.
template <class T>
class Labels {
 public:
  Labels(const Call& call, std::size_t input, std::int64_t classes, std::int64_t inner)
      : type_(call.inputs[input].data_type),
        data_(call.in<std::byte>(input)),
        classes_(classes),
        inner_(inner) {
    const auto& a = call.get<ir::CrossEntropyAttributes>();
    scale_ = 1 - a.smoothing;
    share_ = a.smoothing / static_cast<double>(a.classes > 0 ? a.classes : classes);
  }

  bool ignored(std::int64_t n, std::int64_t i) const {
    return !is_floating_point(type_) && class_of(n, i) == -1;
  }
  // t' of class k at position (n, i).
  double at(std::int64_t n, std::int64_t k, std::int64_t i) const {
    const double label = is_floating_point(type_) ? static_cast<double>(reinterpret_cast<const T*>(
                                                        data_)[(n * classes_ + k) * inner_ + i])
                                                  : (class_of(n, i) == k ? 1.0 : 0.0);
    return label * scale_ + share_;
  }

 private:
  std::int64_t class_of(std::int64_t n, std::int64_t i) const {
    const std::int64_t position = n * inner_ + i;
    return type_ == DataType::kInt64 ? reinterpret_cast<const std::int64_t*>(data_)[position]
                                     : reinterpret_cast<const std::int32_t*>(data_)[position];
  }

  DataType type_;
  const std::byte* data_;
  std::int64_t classes_, inner_;
  double scale_, share_;
};

template <class T>
double largest_of(const T* x, std::int64_t classes, std::int64_t inner) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t k = 0; k < classes; ++k) {
    largest = std::max(largest, static_cast<double>(x[k * inner]));
  }
  return largest;
}

}  // namespace

// logits (N, K, …), labels → loss (N, 1, …), log Σ e^(x - max x) (N, 1, …).
// loss = Σ t' (log Σ e^(x - max x) - (x - max x)); terms with t' = 0 add nothing, even where x is
// not finite.
template <class T>
void softmax_cross_entropy(const Call& call) {
  const Shape& shape = call.in_shape(0);
  const std::int64_t classes = shape[1];
  const std::int64_t inner = element_count(shape) / (shape[0] * classes);
  const Labels<T> labels(call, 1, classes, inner);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const T* x = call.in<T>(0) + n * classes * inner + i;
      const double largest = largest_of(x, classes, inner);
      double sum = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        sum += std::exp(static_cast<double>(x[k * inner]) - largest);
      }
      const double logarithm = std::log(sum);
      double loss = 0;
      for (std::int64_t k = 0; k < classes && !labels.ignored(n, i); ++k) {
        const double label = labels.at(n, k, i);
        if (label == 0) continue;
        loss += label * (logarithm - (static_cast<double>(x[k * inner]) - largest));
      }
      call.out<T>(0)[n * inner + i] = static_cast<T>(loss);
      call.out<T>(1)[n * inner + i] = static_cast<T>(logarithm);
    }
  }
}

// dloss (N, 1, …), logits (N, K, …), labels, logarithm (N, 1, …) → dlogits (N, K, …), overwritten:
// dloss (softmax Σ t' - t'), 0 where dloss is 0, even if x is not finite.
template <class T>
void softmax_cross_entropy_gradient(const Call& call) {
  const Shape& shape = call.in_shape(1);
  const std::int64_t classes = shape[1];
  const std::int64_t inner = element_count(shape) / (shape[0] * classes);
  const Labels<T> labels(call, 2, classes, inner);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const T* x = call.in<T>(1) + n * classes * inner + i;
      T* dx = call.out<T>(0) + n * classes * inner + i;
      const double dloss = static_cast<double>(call.in<T>(0)[n * inner + i]);
      if (labels.ignored(n, i) || dloss == 0) {
        for (std::int64_t k = 0; k < classes; ++k) dx[k * inner] = T(0);
        continue;
      }
      const double logarithm = static_cast<double>(call.in<T>(3)[n * inner + i]);
      const double largest = largest_of(x, classes, inner);
      double total = 0;
      for (std::int64_t k = 0; k < classes; ++k) total += labels.at(n, k, i);
      for (std::int64_t k = 0; k < classes; ++k) {
        const double share = std::exp(static_cast<double>(x[k * inner]) - largest - logarithm);
        const double slope = (total == 0 ? 0 : share * total) - labels.at(n, k, i);
        dx[k * inner] = static_cast<T>(dloss * slope);
      }
    }
  }
}

template void softmax_cross_entropy<float>(const Call&);
template void softmax_cross_entropy<double>(const Call&);
template void softmax_cross_entropy_gradient<float>(const Call&);
template void softmax_cross_entropy_gradient<double>(const Call&);

}  // namespace traingraph::reference
