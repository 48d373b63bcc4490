// The gradient of batch norm over one or two values per channel. With two values, dy cancels up to
// a fraction epsilon / variance, less than the rounding of mean and deviation to float32. So a
// thread per channel computes both again in float64.
#include "backends/cuda/device/device.h"
#include "backends/cuda/normalization/batch_norm.h"

namespace traingraph::cuda {
namespace {

constexpr int kMost = 2;

// dy after its prologue. If the prologue is a sum, it is written.
template <class S>
__device__ double masked_dy(const Gradients<S>& a, std::int64_t at) {
  using T = Compute<S>;
  T dy = widen(a.dy[at]);
  if (a.added != nullptr) dy = widen(narrow<S>(dy + widen(a.added[at])));
  if (a.result != nullptr && widen(a.result[at]) <= T(0)) dy = T(0);
  if (a.relu_mask != nullptr && (a.relu_mask[at / 8] >> at % 8 & 1) == 0) dy = T(0);
  if (a.added != nullptr) a.dy_sum[at] = narrow<S>(dy);
  return static_cast<double>(dy);
}

// Whether `given` is the rounded `value`, allowing for sums in another order.
template <class T>
__device__ bool is_rounded_from(T given, double value, double size) {
  const double reach = sizeof(T) == 8 ? 0x1p-49 : 0x1p-20;
  return ::fabs(static_cast<double>(given) - value) <= reach * size;
}

template <class S>
__global__ void __launch_bounds__(kThreads) gradient(FewValues few, Gradients<S> a) {
  using T = Compute<S>;
  const std::int64_t c = thread_number();
  if (c >= few.channels) return;
  const auto count = static_cast<double>(few.count);
  std::int64_t at[kMost] = {};
  double x[kMost] = {}, dy[kMost] = {}, sum = 0, squares = 0, dbeta = 0, dgamma = 0;
  for (int k = 0; k < few.count; ++k) {
    at[k] = (k / few.run * few.channels + c) * few.run + k % few.run;
    x[k] = static_cast<double>(widen(a.x[at[k]]));
    dy[k] = masked_dy(a, at[k]);
    sum += x[k];
    dbeta += dy[k];
  }
  const double exact = sum / count;
  for (int k = 0; k < few.count; ++k) squares += (x[k] - exact) * (x[k] - exact);
  const double variance = squares / count, exact_inverse = 1 / ::sqrt(variance + few.epsilon);
  // Statistics that are not those of x are used as given.
  const bool own = is_rounded_from(a.mean[c], exact, ::fabs(exact) + ::sqrt(variance)) &&
                   is_rounded_from(a.inverse_deviation[c], exact_inverse, exact_inverse);
  const double mean = own ? exact : static_cast<double>(a.mean[c]);
  const double inverse = own ? exact_inverse : static_cast<double>(a.inverse_deviation[c]);
  for (int k = 0; k < few.count; ++k) dgamma += dy[k] * ((x[k] - mean) * inverse);
  a.dbeta[c] = static_cast<T>(dbeta);
  a.dgamma[c] = static_cast<T>(dgamma);
  const double scale = static_cast<double>(a.gamma[c]) * inverse;
  for (int k = 0; k < few.count; ++k) {
    const double z = (x[k] - mean) * inverse;
    a.dx[at[k]] = narrow<S>(static_cast<T>(scale * (dy[k] - dbeta / count - z * dgamma / count)));
  }
}

}  // namespace

template <class S>
void enqueue_few_values(const FewValues& few, const Gradients<S>& a, cudaStream_t stream) {
  gradient<<<blocks_for(few.channels), kThreads, 0, stream>>>(few, a);
}

#define TRAINGRAPH_FEW(S) \
  template void enqueue_few_values(const FewValues&, const Gradients<S>&, cudaStream_t);
TRAINGRAPH_FEW(float)
TRAINGRAPH_FEW(double)
TRAINGRAPH_FEW(__half)
TRAINGRAPH_FEW(__nv_bfloat16)
#undef TRAINGRAPH_FEW

}  // namespace traingraph::cuda
