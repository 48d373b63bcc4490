// Convolution layers of BNNS by plain loops, summed in float64.
#include <algorithm>

#include "filter.h"

namespace accelerate_double {
namespace {

// f(index in x, index of the weight, index in y) for each product of one sample.
template <class F>
void each_product(const Filter& f, const F& product) {
  const Window& w = f.window;
  const std::size_t ins = f.in[2] / f.groups, outs = f.out[2] / f.groups;
  const bool scattered = reads("groups");
  std::size_t at_y = 0;
  for (std::size_t o = 0; o < f.out[2]; ++o) {
    for (std::size_t row = 0; row < f.out[1]; ++row) {
      for (std::size_t column = 0; column < f.out[0]; ++column, ++at_y) {
        std::size_t at_weight = o * ins * w.kernel[0] * w.kernel[1];
        for (std::size_t k = 0; k < ins; ++k) {
          const std::size_t channel = scattered ? k * f.groups + o / outs : o / outs * ins + k;
          const std::size_t plane = channel * f.in[0] * f.in[1];
          for (std::size_t i = 0; i < w.kernel[1]; ++i) {
            for (std::size_t j = 0; j < w.kernel[0]; ++j, ++at_weight) {
              std::size_t y, x;
              if (!w.source(1, row, i, f.in[1], y)) continue;
              if (!w.source(0, column, j, f.in[0], x)) continue;
              product(plane + y * f.in[0] + x, at_weight, at_y);
            }
          }
        }
      }
    }
  }
}

void require_weights(const BNNSNDArrayDescriptor& weights, const Filter& f, const char* call) {
  require_described(weights, BNNSDataLayoutConvolutionWeightsOIHW, call);
  require(weights.data != nullptr, call, "the weights are null");
  require(weights.size[2] * f.groups == f.in[2] && weights.size[3] == f.out[2], call,
          "the weights' channels are not those of input and output");
}

// Sums in float64, one per element; filled by each_product, then written or added.
class Sums {
 public:
  explicit Sums(std::size_t count) : count_(count), sums_(new double[count]()) {}
  ~Sums() { delete[] sums_; }
  double& operator[](std::size_t at) { return sums_[at]; }

  void write(float* to, bool adds) const {
    for (std::size_t i = 0; i < count_; ++i) {
      to[i] = static_cast<float>(sums_[i] + (adds ? static_cast<double>(to[i]) : 0.0));
    }
  }

 private:
  std::size_t count_;
  double* sums_;
};

double product_of(float a, float b) { return static_cast<double>(a) * static_cast<double>(b); }

}  // namespace
}  // namespace accelerate_double

using namespace accelerate_double;

BNNSFilter BNNSFilterCreateLayerConvolution(const BNNSLayerParametersConvolution* layer_params,
                                            const BNNSFilterParameters* filter_params) {
  constexpr const char* kCall = "BNNSFilterCreateLayerConvolution";
  if (refuses(kCall)) return nullptr;
  require(layer_params != nullptr, kCall, "the parameters are null");
  const BNNSLayerParametersConvolution& p = *layer_params;
  Filter filter{};
  filter.kind = Filter::kConvolution;
  filter.groups = p.groups;
  take_window(filter, p, p.w_desc.size[0], p.w_desc.size[1], kCall);
  require(p.groups > 0 && filter.in[2] % p.groups == 0 && filter.out[2] % p.groups == 0, kCall,
          "the channels are no multiple of the groups");
  require_weights(p.w_desc, filter, kCall);
  const auto* weights = static_cast<const float*>(p.w_desc.data);
  const bool in_place =
      filter_params != nullptr && (filter_params->flags & BNNSFlagsUseClientPtr) != 0;
  if (in_place && !reads("copies")) {
    filter.weights = weights;
  } else {
    filter.copy = new float[filter.weight_elements()];
    std::copy_n(weights, filter.weight_elements(), filter.copy);
    filter.weights = filter.copy;
  }
  return enter(new Filter(filter));
}

int BNNSFilterApplyBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                         std::size_t in_stride, void* out, std::size_t out_stride) {
  constexpr const char* kCall = "BNNSFilterApplyBatch";
  if (refuses(kCall)) return -1;
  const Filter& f = living(filter, Filter::kConvolution, kCall);
  require_batch(in, batch_size, in_stride, f.in_elements(), kCall);
  require_batch(out, batch_size, out_stride, f.out_elements(), kCall);
  require(!overlap({in, (batch_size - 1) * in_stride + f.in_elements()},
                   {out, (batch_size - 1) * out_stride + f.out_elements()}),
          kCall, "the output overlaps the input");
  for (std::size_t n = 0; n < batch_size; ++n) {
    const float* x = static_cast<const float*>(in) + n * in_stride;
    Sums sums(f.out_elements());
    each_product(f, [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
      sums[at_y] += product_of(x[at_x], f.weights[at_weight]);
    });
    sums.write(static_cast<float*>(out) + n * out_stride, false);
  }
  return 0;
}

int BNNSFilterApplyBackwardBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                                 std::size_t in_stride, BNNSNDArrayDescriptor* in_delta,
                                 std::size_t in_delta_stride, const void*, std::size_t,
                                 const BNNSNDArrayDescriptor* out_delta,
                                 std::size_t out_delta_stride, BNNSNDArrayDescriptor* weights_delta,
                                 BNNSNDArrayDescriptor* bias_delta) {
  constexpr const char* kCall = "BNNSFilterApplyBackwardBatch";
  if (refuses(kCall)) return -1;
  const Filter& f = living(filter, Filter::kConvolution, kCall);
  require(out_delta != nullptr, kCall, "the output's gradient is null");
  require(in_delta != nullptr || weights_delta != nullptr, kCall, "no gradient is asked for");
  require(bias_delta == nullptr, kCall, "the double knows no bias");
  if (reads("null") && (in_delta == nullptr || weights_delta == nullptr)) return -1;
  const float* dy = gradient_memory(*out_delta, f.out, batch_size, out_delta_stride, kCall);
  if (in_delta != nullptr) {
    float* dx = gradient_memory(*in_delta, f.in, batch_size, in_delta_stride, kCall);
    for (std::size_t n = 0; n < batch_size; ++n) {
      Sums sums(f.in_elements());
      const float* sample = dy + n * out_delta_stride;
      each_product(f, [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
        sums[at_x] += product_of(sample[at_y], f.weights[at_weight]);
      });
      sums.write(dx + n * in_delta_stride, reads("adds"));
    }
  }
  if (weights_delta != nullptr) {
    require_weights(*weights_delta, f, kCall);
    require_batch(in, batch_size, in_stride, f.in_elements(), kCall);
    Sums sums(f.weight_elements());
    for (std::size_t n = 0; n < batch_size; ++n) {
      const float* x = static_cast<const float*>(in) + n * in_stride;
      const float* sample = dy + n * out_delta_stride;
      each_product(f, [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
        sums[at_weight] += product_of(sample[at_y], x[at_x]);
      });
    }
    sums.write(static_cast<float*>(weights_delta->data), reads("adds"));
  }
  return 0;
}
