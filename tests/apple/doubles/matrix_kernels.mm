// Kernels over matrices: product, and copies from and to images.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsmatrixmultiplication
#include <algorithm>

#include "image.h"
#include "matrix.h"

struct MPSMatrixMultiplicationInside {
  bool left, right;  // transposed
  NSUInteger rows, columns, interior;
  double alpha, beta;
};

namespace {

using apple::Matrix;
using apple::Picture;
using apple::Pictures;

void expect_apart(const Matrix& result, const Matrix& source, const char* what) {
  if (result.overlaps(source)) apple::broken(what, "its result overlaps a source");
}

void expect_extent(const Matrix& matrix, NSUInteger rows, NSUInteger columns, const char* what) {
  if (matrix.rows < rows || matrix.columns < columns)
    apple::broken(what, "a matrix of " + std::to_string(matrix.rows) + " x " +
                            std::to_string(matrix.columns) + " where " + std::to_string(rows) +
                            " x " + std::to_string(columns) + " are used");
}

// f(picture, x, y, c, value) for each value of a matrix whose rows hold the images of a batch.
template <class F>
void each_value(const Matrix& matrix, NSUInteger index, const Pictures& pictures,
                MPSDataLayout layout, const F& f) {
  for (NSUInteger row = 0; row < pictures.size(); ++row) {
    const Picture& picture = pictures[row];
    picture.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      const NSUInteger column = layout == MPSDataLayoutHeightxWidthxFeatureChannels
                                    ? (y * picture.width() + x) * picture.channels + c
                                    : (c * picture.height() + y) * picture.width() + x;
      f(picture, x, y, c, matrix.at(index, row, column));
    });
  }
}

void check_rows(const Matrix& matrix, NSUInteger index, const Pictures& pictures,
                const char* what) {
  if (index >= matrix.matrices) apple::broken(what, "the matrix of this index is not there");
  const Picture& first = pictures.front();
  expect_extent(matrix, pictures.size(), first.width() * first.height() * first.channels, what);
}

MPSImageBatch* one(MPSImage* image) { return [NSArray arrayWithObject:image]; }

}  // namespace

@implementation MPSMatrixMultiplication
MEMBERS(MPSMatrixMultiplication)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 transposeLeft:(BOOL)transposeLeft
                transposeRight:(BOOL)transposeRight
                    resultRows:(NSUInteger)resultRows
                 resultColumns:(NSUInteger)resultColumns
               interiorColumns:(NSUInteger)interiorColumns
                         alpha:(double)alpha
                          beta:(double)beta {
  self = [super initWithDevice:device];
  apple::expect(resultRows * resultColumns * interiorColumns != 0, "a product of no extent");
  inside_MPSMatrixMultiplication = std::make_shared<MPSMatrixMultiplicationInside>(
      MPSMatrixMultiplicationInside{transposeLeft != NO, transposeRight != NO, resultRows,
                                    resultColumns, interiorColumns, alpha, beta});
  _batchSize = NSUIntegerMax;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                    resultRows:(NSUInteger)resultRows
                 resultColumns:(NSUInteger)resultColumns
               interiorColumns:(NSUInteger)interiorColumns {
  return [self initWithDevice:device
                transposeLeft:NO
               transposeRight:NO
                   resultRows:resultRows
                resultColumns:resultColumns
              interiorColumns:interiorColumns
                        alpha:1
                         beta:0];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   leftMatrix:(MPSMatrix*)leftMatrix
                  rightMatrix:(MPSMatrix*)rightMatrix
                 resultMatrix:(MPSMatrix*)resultMatrix {
  const char* what = "MPSMatrixMultiplication";
  for (const MTLOrigin& origin : {_leftMatrixOrigin, _rightMatrixOrigin, _resultMatrixOrigin})
    apple::expect_origin(origin, what);
  const Matrix left = apple::read_matrix(leftMatrix, what);
  const Matrix right = apple::read_matrix(rightMatrix, what);
  const Matrix result = apple::read_matrix(resultMatrix, what);
  const MPSMatrixMultiplicationInside p = *inside_MPSMatrixMultiplication;
  expect_extent(left, p.left ? p.interior : p.rows, p.left ? p.rows : p.interior, what);
  expect_extent(right, p.right ? p.columns : p.interior, p.right ? p.interior : p.columns, what);
  expect_extent(result, p.rows, p.columns, what);
  expect_apart(result, left, what);
  expect_apart(result, right, what);
  const NSUInteger least = std::min({left.matrices, right.matrices, result.matrices});
  const NSUInteger begin = _batchStart, count = std::min(_batchSize, result.matrices - begin);
  if (begin >= result.matrices || begin + count > least)
    apple::broken(what, "its matrices differ in number");
  apple::add_work(commandBuffer, what, [=] {
    for (NSUInteger n = begin; n < begin + count; ++n)
      for (NSUInteger i = 0; i < p.rows; ++i)
        for (NSUInteger j = 0; j < p.columns; ++j) {
          double sum = 0;
          for (NSUInteger k = 0; k < p.interior; ++k)
            sum += double{p.left ? left.at(n, k, i) : left.at(n, i, k)} *
                   (p.right ? right.at(n, j, k) : right.at(n, k, j));
          float& value = result.at(n, i, j);
          // What is there counts only where beta does; it may be anything.
          value = static_cast<float>(p.alpha * sum + (p.beta == 0 ? 0 : p.beta * value));
        }
  });
}
@end

@implementation MPSImageCopyToMatrix
@synthesize destinationMatrixOrigin = _destinationMatrixOrigin;
@synthesize destinationMatrixBatchIndex = _destinationMatrixBatchIndex;
@synthesize dataLayout = _dataLayout;
- (instancetype)initWithDevice:(id<MTLDevice>)device dataLayout:(MPSDataLayout)dataLayout {
  self = [super initWithDevice:device];
  _dataLayout = dataLayout;
  return self;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                 destinationMatrix:(MPSMatrix*)destinationMatrix {
  const char* what = "MPSImageCopyToMatrix";
  apple::expect_origin(_destinationMatrixOrigin, what);
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  const Matrix to = apple::read_matrix(destinationMatrix, what);
  const NSUInteger index = _destinationMatrixBatchIndex;
  check_rows(to, index, sources, what);
  apple::add_work(commandBuffer, what, [=, layout = _dataLayout] {
    each_value(to, index, sources, layout,
               [](const Picture& picture, NSUInteger x, NSUInteger y, NSUInteger c, float& value) {
                 value = picture.get(x, y, c);
               });
  });
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceImage:(MPSImage*)sourceImage
            destinationMatrix:(MPSMatrix*)destinationMatrix {
  [self encodeBatchToCommandBuffer:commandBuffer
                      sourceImages:one(sourceImage)
                 destinationMatrix:destinationMatrix];
}
@end

@implementation MPSMatrixCopyToImage
@synthesize sourceMatrixOrigin = _sourceMatrixOrigin;
@synthesize sourceMatrixBatchIndex = _sourceMatrixBatchIndex;
@synthesize dataLayout = _dataLayout;
- (instancetype)initWithDevice:(id<MTLDevice>)device dataLayout:(MPSDataLayout)dataLayout {
  self = [super initWithDevice:device];
  _dataLayout = dataLayout;
  return self;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceMatrix:(MPSMatrix*)sourceMatrix
                 destinationImages:(MPSImageBatch*)destinationImages {
  const char* what = "MPSMatrixCopyToImage";
  apple::expect_origin(_sourceMatrixOrigin, what);
  const Matrix from = apple::read_matrix(sourceMatrix, what);
  const Pictures results = apple::write(destinationImages, commandBuffer, what, {});
  const NSUInteger index = _sourceMatrixBatchIndex;
  check_rows(from, index, results, what);
  apple::add_work(commandBuffer, what, [=, layout = _dataLayout] {
    each_value(from, index, results, layout,
               [](const Picture& picture, NSUInteger x, NSUInteger y, NSUInteger c, float value) {
                 picture.set(x, y, c, value);
               });
  });
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                      sourceMatrix:sourceMatrix
                 destinationImages:one(destinationImage)];
}
@end
