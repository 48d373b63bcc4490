// One wrong call of each kind: `accelerate_misuses list` prints "name: sentence" for each, and
// `accelerate_misuses name` makes it. A double that lets it pass ends the program normally.
#include <Accelerate/Accelerate.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace {

float memory[4096] = {};

BNNSNDArrayDescriptor described(BNNSDataLayout layout, std::initializer_list<std::size_t> sizes,
                                float* data = nullptr) {
  BNNSNDArrayDescriptor found{};
  found.layout = layout;
  int axis = 0;
  for (std::size_t size : sizes) found.size[axis++] = size;
  found.data = data;
  found.data_type = BNNSDataTypeFloat32;
  return found;
}

BNNSNDArrayDescriptor image(std::size_t width, std::size_t height, std::size_t channels,
                            float* data = nullptr) {
  return described(BNNSDataLayoutImageCHW, {width, height, channels}, data);
}

// 2 channels of 6 x 6 to 3 of 4 x 4 by 3 x 3 weights.
BNNSLayerParametersConvolution convolution() {
  BNNSLayerParametersConvolution p{};
  p.i_desc = image(6, 6, 2);
  p.o_desc = image(4, 4, 3);
  p.w_desc = described(BNNSDataLayoutConvolutionWeightsOIHW, {3, 3, 2, 3}, memory);
  p.activation.function = BNNSActivationFunctionIdentity;
  p.x_stride = p.y_stride = p.x_dilation_stride = p.y_dilation_stride = p.groups = 1;
  return p;
}

template <class Change>
void create(const Change& change) {
  BNNSLayerParametersConvolution p = convolution();
  change(p);
  BNNSFilterCreateLayerConvolution(&p, nullptr);
}

BNNSFilter filter() {
  const BNNSLayerParametersConvolution p = convolution();
  return BNNSFilterCreateLayerConvolution(&p, nullptr);
}

// 2 channels of 6 x 6 to 3 x 3.
BNNSLayerParametersPooling pooling(BNNSPoolingFunction function) {
  BNNSLayerParametersPooling p{};
  p.i_desc = image(6, 6, 2);
  p.o_desc = image(3, 3, 2);
  p.activation.function = BNNSActivationFunctionIdentity;
  p.pooling_function = function;
  p.k_width = p.k_height = p.x_stride = p.y_stride = 2;
  p.x_dilation_stride = p.y_dilation_stride = 1;
  return p;
}

BNNSFilter pool(BNNSPoolingFunction function) {
  const BNNSLayerParametersPooling p = pooling(function);
  return BNNSFilterCreateLayerPooling(&p, nullptr);
}

// in_delta, out_delta and weights_delta of the convolution above, as a call has them.
struct Gradients {
  BNNSNDArrayDescriptor in = image(6, 6, 2, memory);
  BNNSNDArrayDescriptor out = image(4, 4, 3, memory + 512);
};

template <class Change>
void backward(const Change& change) {
  Gradients g;
  BNNSNDArrayDescriptor* in = &g.in;
  BNNSNDArrayDescriptor* out = &g.out;
  BNNSNDArrayDescriptor* bias = nullptr;
  change(g, in, out, bias);
  BNNSFilterApplyBackwardBatch(filter(), 1, nullptr, 72, in, 72, nullptr, 48, out, 48, nullptr,
                               bias);
}

template <class Change>
void pool_backward(BNNSPoolingFunction function, const Change& change) {
  BNNSNDArrayDescriptor dx = image(6, 6, 2, memory), dy = image(3, 3, 2, memory + 512);
  BNNSNDArrayDescriptor* in = &dx;
  BNNSNDArrayDescriptor* bias = nullptr;
  change(in, bias);
  BNNSPoolingFilterApplyBackwardBatch(pool(function), 1, nullptr, 72, in, 72, nullptr, 18, &dy, 18,
                                      bias, nullptr, 0);
}

void product(CBLAS_ORDER order, int rows, const float* a, int lda, float* c) {
  cblas_sgemm(order, CblasNoTrans, CblasNoTrans, rows, 4, 4, 1, a, lda, memory, 4, 0, c, 4);
}

struct Misuse {
  const char* name;
  const char* sentence;
  void (*make)();
};

using P = BNNSLayerParametersConvolution;
using D = BNNSNDArrayDescriptor;

const Misuse kMisuses[] = {
#include "misuses.def"
};

}  // namespace

int main(int count, char** arguments) {
  for (const Misuse& misuse : kMisuses) {
    if (count == 2 && std::strcmp(arguments[1], "list") == 0) {
      std::printf("%s: %s\n", misuse.name, misuse.sentence);
    } else if (count == 2 && std::strcmp(arguments[1], misuse.name) == 0) {
      misuse.make();
    }
  }
}
