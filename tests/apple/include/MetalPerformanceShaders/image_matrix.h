// Copies between images and matrices, which the inventory does not have:
// https://developer.apple.com/documentation/metalperformanceshaders/mpsimagecopytomatrix
// https://developer.apple.com/documentation/metalperformanceshaders/mpsmatrixcopytoimage
#pragma once

// A row of the matrix per image.
@interface MPSImageCopyToMatrix : MPSKernel {
  MTLOrigin _destinationMatrixOrigin;
  NSUInteger _destinationMatrixBatchIndex;
  MPSDataLayout _dataLayout;
}
@property(readwrite, nonatomic) MTLOrigin destinationMatrixOrigin;
@property(readwrite, nonatomic) NSUInteger destinationMatrixBatchIndex;
@property(readonly, nonatomic) MPSDataLayout dataLayout;
- (instancetype)initWithDevice:(id<MTLDevice>)device dataLayout:(MPSDataLayout)dataLayout;
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceImage:(MPSImage*)sourceImage
            destinationMatrix:(MPSMatrix*)destinationMatrix;
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                 destinationMatrix:(MPSMatrix*)destinationMatrix;
@end

// An image per row of the matrix.
@interface MPSMatrixCopyToImage : MPSKernel {
  MTLOrigin _sourceMatrixOrigin;
  NSUInteger _sourceMatrixBatchIndex;
  MPSDataLayout _dataLayout;
}
@property(readwrite, nonatomic) MTLOrigin sourceMatrixOrigin;
@property(readwrite, nonatomic) NSUInteger sourceMatrixBatchIndex;
@property(readonly, nonatomic) MPSDataLayout dataLayout;
- (instancetype)initWithDevice:(id<MTLDevice>)device dataLayout:(MPSDataLayout)dataLayout;
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
             destinationImage:(MPSImage*)destinationImage;
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceMatrix:(MPSMatrix*)sourceMatrix
                 destinationImages:(MPSImageBatch*)destinationImages;
@end
