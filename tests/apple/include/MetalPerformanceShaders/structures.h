// What of Metal Performance Shaders is no class: structures, functions and the names of batches.
// https://developer.apple.com/documentation/metalperformanceshaders and its pages /mpsoffset
// /mpsimagecoordinate /mpsimagereadwriteparams /mpsscaletransform /mpsmatrixcopyoffsets
// /mpsstatetextureinfo /mpsimagebatch /mpsrectnoclip /mpssupportsmtldevice /mpsgetpreferreddevice
#pragma once
#include <Metal/Metal.h>

@class MPSImage, MPSState, MPSCNNConvolutionGradientState, MPSCNNConvolutionTransposeGradientState;
@class MPSCNNArithmeticGradientState, MPSCNNDropoutGradientState, MPSCNNLossLabels;
@class MPSCNNGroupNormalizationGradientState, MPSCNNInstanceNormalizationGradientState;

typedef NS_OPTIONS(NSUInteger, MPSDeviceOptions) {
  MPSDeviceOptionsDefault = 0,
  MPSDeviceOptionsLowPower = 1,
  MPSDeviceOptionsSkipRemovable = 2,
};
typedef float vector_float2 __attribute__((ext_vector_type(2)));

typedef struct {
  NSInteger x, y, z;
} MPSOffset;
typedef struct {
  double x, y, z;
} MPSOrigin;
typedef struct {
  double width, height, depth;
} MPSSize;
typedef struct {
  MPSOrigin origin;
  MPSSize size;
} MPSRegion;
typedef struct {
  double scaleX, scaleY, translateX, translateY;
} MPSScaleTransform;
typedef struct {
  NSUInteger x, y, channel;
} MPSImageCoordinate;
typedef struct {
  NSUInteger featureChannelOffset;
  NSUInteger numberOfFeatureChannelsToReadWrite;
} MPSImageReadWriteParams;
typedef struct {
  uint32_t sourceRowOffset, sourceColumnOffset, destinationRowOffset, destinationColumnOffset;
} MPSMatrixCopyOffsets;
typedef struct {
  NSUInteger width, height, depth, arrayLength;
  MTLPixelFormat pixelFormat;
  MTLTextureType textureType;
  MTLTextureUsage usage;
  NSUInteger _reserved[4];
} MPSStateTextureInfo;

typedef NSArray<MPSImage*> MPSImageBatch;
typedef NSArray<MPSState*> MPSStateBatch;
typedef NSArray<MPSCNNConvolutionGradientState*> MPSCNNConvolutionGradientStateBatch;
typedef NSArray<MPSCNNConvolutionTransposeGradientState*>
    MPSCNNConvolutionTransposeGradientStateBatch;
typedef NSArray<MPSCNNArithmeticGradientState*> MPSCNNArithmeticGradientStateBatch;
typedef NSArray<MPSCNNDropoutGradientState*> MPSCNNDropoutGradientStateBatch;
typedef NSArray<MPSCNNLossLabels*> MPSCNNLossLabelsBatch;
typedef NSArray<MPSCNNGroupNormalizationGradientState*> MPSCNNGroupNormalizationGradientStateBatch;
typedef NSArray<MPSCNNInstanceNormalizationGradientState*>
    MPSCNNInstanceNormalizationGradientStateBatch;

#ifdef __cplusplus
extern "C" {
#endif
extern const MTLRegion MPSRectNoClip;
BOOL MPSSupportsMTLDevice(id<MTLDevice> device);
id<MTLDevice> MPSGetPreferredDevice(MPSDeviceOptions options);
NSUInteger MPSImageBatchIncrementReadCount(MPSImageBatch* batch, NSInteger amount);
void MPSImageBatchSynchronize(MPSImageBatch* batch, id<MTLCommandBuffer> commandBuffer);
NSUInteger MPSStateBatchIncrementReadCount(MPSStateBatch* batch, NSInteger amount);
void MPSStateBatchSynchronize(MPSStateBatch* batch, id<MTLCommandBuffer> commandBuffer);
#ifdef __cplusplus
}
#endif
