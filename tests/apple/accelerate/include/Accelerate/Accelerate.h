// Declarations of what the BNNS backend uses of Apple's Accelerate framework, for machines without
// it. Written from Apple's public web documentation, whose page stands above each group; names,
// types and the order of arguments are theirs. The numbers behind constants are not documented and
// are this file's own: nothing compiled against it runs against the framework.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// --- BNNS: arrays ------------------------------------------------------------------------------

// https://developer.apple.com/documentation/accelerate/bnnsdatatype
enum BNNSDataType : std::uint32_t { BNNSDataTypeFloat32 = 1, BNNSDataTypeFloat16 };

// https://developer.apple.com/documentation/accelerate/bnnsdatalayout
// Extents and strides are listed innermost first: (x, y, channel) of an image is at
// x stride[0] + y stride[1] + channel stride[2], and weights are (kx, ky, in channel, out channel).
enum BNNSDataLayout : std::uint32_t {
  BNNSDataLayoutVector = 1,
  BNNSDataLayoutRowMajorMatrix,
  BNNSDataLayoutImageCHW,
  BNNSDataLayoutConvolutionWeightsOIHW
};

// https://developer.apple.com/documentation/accelerate/bnnsndarrayflags
enum BNNSNDArrayFlags : std::uint32_t {};

// https://developer.apple.com/documentation/accelerate/bnnsndarraydescriptor
// A stride of 0: BNNS calculates it, without padding.
struct BNNSNDArrayDescriptor {
  BNNSNDArrayFlags flags;
  BNNSDataLayout layout;
  std::size_t size[8];
  std::size_t stride[8];
  void* data;
  BNNSDataType data_type;
  void* table_data;
  BNNSDataType table_data_type;
  float data_scale;
  float data_bias;
};

// --- BNNS: filters -----------------------------------------------------------------------------

// https://developer.apple.com/documentation/accelerate/bnnsfilter
using BNNSFilter = void*;

// https://developer.apple.com/documentation/accelerate/bnnsflags/useclientpointer
// Set: the filter keeps the pointers of its creation and works directly from that data, which has
// to stay. Not set: it keeps a copy.
enum BNNSFlags : std::uint32_t { BNNSFlagsUseClientPtr = 1 };

// https://developer.apple.com/documentation/accelerate/bnnsfilterparameters
using BNNSAlloc = int (*)(void** memory, std::size_t alignment, std::size_t size);
using BNNSFree = void (*)(void* memory);
struct BNNSFilterParameters {
  std::uint32_t flags;
  std::size_t n_threads;
  BNNSAlloc alloc_memory;
  BNNSFree free_memory;
};

// https://developer.apple.com/documentation/accelerate/bnnsactivation (its first three members)
enum BNNSActivationFunction : std::uint32_t {
  BNNSActivationFunctionIdentity = 1,
  BNNSActivationFunctionRectifiedLinear
};
struct BNNSActivation {
  BNNSActivationFunction function;
  float alpha;
  float beta;
};

// https://developer.apple.com/documentation/accelerate/bnnsfilterapplybatch(_:_:_:_:_:_:)
// https://developer.apple.com/documentation/accelerate/bnnsfilterapplybackwardbatch(_:_:_:_:_:_:_:_:_:_:_:_:)
// https://developer.apple.com/documentation/accelerate/bnnsfilterdestroy(_:)
// Strides are increments in values between the samples of a batch. 0 on success, -1 on failure.
int BNNSFilterApplyBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                         std::size_t in_stride, void* out, std::size_t out_stride);
int BNNSFilterApplyBackwardBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                                 std::size_t in_stride, BNNSNDArrayDescriptor* in_delta,
                                 std::size_t in_delta_stride, const void* out,
                                 std::size_t out_stride, const BNNSNDArrayDescriptor* out_delta,
                                 std::size_t out_delta_stride, BNNSNDArrayDescriptor* weights_delta,
                                 BNNSNDArrayDescriptor* bias_delta);
void BNNSFilterDestroy(BNNSFilter filter);

// --- BNNS: layers ------------------------------------------------------------------------------

// https://developer.apple.com/documentation/accelerate/bnnslayerparametersconvolution
// `pad` is left, right, up, down
// (https://developer.apple.com/documentation/accelerate/bnns/convolutionpadding) and ignored where
// x_padding or y_padding is greater than 0. `groups` is the Swift layer's groupCount.
struct BNNSLayerParametersConvolution {
  BNNSNDArrayDescriptor i_desc;
  BNNSNDArrayDescriptor w_desc;
  BNNSNDArrayDescriptor o_desc;
  BNNSNDArrayDescriptor bias;
  BNNSActivation activation;
  std::size_t x_stride;
  std::size_t y_stride;
  std::size_t x_dilation_stride;
  std::size_t y_dilation_stride;
  std::size_t x_padding;
  std::size_t y_padding;
  std::size_t groups;
  std::size_t pad[4];
};
// https://developer.apple.com/documentation/accelerate/bnnsfiltercreatelayerconvolution(_:_:)
BNNSFilter BNNSFilterCreateLayerConvolution(const BNNSLayerParametersConvolution* layer_params,
                                            const BNNSFilterParameters* filter_params);

// https://developer.apple.com/documentation/accelerate/bnnspoolingfunction
enum BNNSPoolingFunction : std::uint32_t {
  BNNSPoolingFunctionAverageCountIncludePadding = 1,
  BNNSPoolingFunctionAverageCountExcludePadding,
  BNNSPoolingFunctionL2Norm
};
// https://developer.apple.com/documentation/accelerate/bnnslayerparameterspooling
struct BNNSLayerParametersPooling {
  BNNSNDArrayDescriptor i_desc;
  BNNSNDArrayDescriptor o_desc;
  BNNSNDArrayDescriptor bias;
  BNNSActivation activation;
  BNNSPoolingFunction pooling_function;
  std::size_t k_width;
  std::size_t k_height;
  std::size_t x_stride;
  std::size_t y_stride;
  std::size_t x_dilation_stride;
  std::size_t y_dilation_stride;
  std::size_t x_padding;
  std::size_t y_padding;
  std::size_t pad[4];
};
// https://developer.apple.com/documentation/accelerate/bnnsfiltercreatelayerpooling(_:_:)
BNNSFilter BNNSFilterCreateLayerPooling(const BNNSLayerParametersPooling* layer_params,
                                        const BNNSFilterParameters* filter_params);
// https://developer.apple.com/documentation/accelerate/bnnspoolingfilterapplybatch(_:_:_:_:_:_:_:_:)
// https://developer.apple.com/documentation/accelerate/bnnspoolingfilterapplybackwardbatch(_:_:_:_:_:_:_:_:_:_:_:_:_:)
int BNNSPoolingFilterApplyBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                                std::size_t in_stride, void* out, std::size_t out_stride,
                                std::size_t* indices, std::size_t idx_stride);
int BNNSPoolingFilterApplyBackwardBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                                        std::size_t in_stride, BNNSNDArrayDescriptor* in_delta,
                                        std::size_t in_delta_stride, const void* out,
                                        std::size_t out_stride, BNNSNDArrayDescriptor* out_delta,
                                        std::size_t out_delta_stride,
                                        BNNSNDArrayDescriptor* bias_delta,
                                        const std::size_t* indices, std::size_t idx_stride);

// --- BLAS --------------------------------------------------------------------------------------
// https://developer.apple.com/documentation/accelerate/cblas_sgemm(_:_:_:_:_:_:_:_:_:_:_:_:_:_:)

enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans };

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, int m,
                 int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
                 float beta, float* c, int ldc);

}  // extern "C"
