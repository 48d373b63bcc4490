// Rows of a table by index, their gradient, and the limit of their norms.
#include <algorithm>

#include "backends/reference/call.h"
#include "runtime/numbers/row_limit.h"

namespace traingraph::reference {
namespace {

// f(pick, row) for each index of input 1 that is a row of the table.
template <class F>
void for_each_pick(const Call& call, std::int64_t count, F f) {
  const auto visit = [&](const auto* indices) {
    for (std::int64_t k = 0; k < element_count(call.in_shape(1)); ++k) {
      const auto row = static_cast<std::int64_t>(indices[k]);
      if (row >= 0 && row < count) f(k, row);
    }
  };
  if (call.inputs[1].data_type == DataType::kInt32) return visit(call.in<std::int32_t>(1));
  visit(call.in<std::int64_t>(1));
}

// f(row, picks of it) once for each row that is picked.
template <class F>
void for_each_row(const Call& call, std::int64_t count, F f) {
  for_each_pick(call, count, [&](std::int64_t k, std::int64_t row) {
    bool is_first = true;
    std::int64_t picks = 0;
    for_each_pick(call, count, [&](std::int64_t other, std::int64_t same) {
      if (same != row) return;
      is_first = is_first && other >= k;
      ++picks;
    });
    if (is_first) f(row, picks);
  });
}

}  // namespace

template <class T>
void embedding(const Call& call) {
  const std::int64_t dimension = call.in_shape(0)[1];
  std::fill_n(call.out<T>(0), element_count(call.out_shape(0)), T(0));
  for_each_pick(call, call.in_shape(0)[0], [&](std::int64_t k, std::int64_t row) {
    std::copy_n(call.in<T>(0) + row * dimension, dimension, call.out<T>(0) + k * dimension);
  });
}

template <class T>
void embedding_gradient(const Call& call) {
  const auto& a = call.get<ir::EmbeddingAttributes>();
  const std::int64_t dimension = call.out_shape(0)[1];
  T* const y = call.out<T>(0);
  std::fill_n(y, a.count * dimension, T(0));
  for_each_pick(call, a.count, [&](std::int64_t k, std::int64_t row) {
    if (row == a.padding) return;
    const T* const dy = call.in<T>(0) + k * dimension;
    for (std::int64_t i = 0; i < dimension; ++i) y[row * dimension + i] += dy[i];
  });
  if (!a.by_frequency) return;
  for_each_row(call, a.count, [&](std::int64_t row, std::int64_t picks) {
    for (std::int64_t i = 0; i < dimension; ++i) y[row * dimension + i] /= static_cast<T>(picks);
  });
}

template <class T>
void limit_rows(const Call& call) {
  const auto& a = call.get<ir::RowLimitAttributes>();
  const std::int64_t count = call.in_shape(0)[0], dimension = call.in_shape(0)[1];
  T* const y = call.out<T>(0);
  if (y != call.in<T>(0)) std::copy_n(call.in<T>(0), count * dimension, y);
  for_each_row(call, count, [&](std::int64_t row, std::int64_t) {
    limit_row(a, dimension, y + row * dimension);
  });
}

template void embedding<float>(const Call&);
template void embedding<double>(const Call&);
template void embedding_gradient<float>(const Call&);
template void embedding_gradient<double>(const Call&);
template void limit_rows<float>(const Call&);
template void limit_rows<double>(const Call&);

}  // namespace traingraph::reference
