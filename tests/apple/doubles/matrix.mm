// Matrices and vectors: https://developer.apple.com/documentation/metalperformanceshaders/mpsmatrix
#include "matrix.h"

#include "image.h"

namespace apple {

Matrix read_matrix(MPSMatrix* m, const char* what) {
  if (m == nil) broken(what, "a matrix is missing");
  return {[m data], [m offset], [m rows], [m columns], [m rowBytes], [m matrices], [m matrixBytes]};
}

Matrix read_vector(MPSVector* v, const char* what) {
  if (v == nil) broken(what, "a vector is missing");
  return {[v data], [v offset], [v vectors], [v length], [v vectorBytes], 1, 0};
}

void expect_origin(const MTLOrigin& origin, const char* what) {
  if (origin.x != 0 || origin.y != 0 || origin.z != 0)
    broken(what, "an origin within a matrix has no behaviour on this double");
}

namespace {
void check_values(MPSDataType type, NSUInteger offset, NSUInteger row_bytes, NSUInteger columns) {
  expect(type == MPSDataTypeFloat32, "matrices of this double are of float32");
  expect(offset % 4 == 0 && row_bytes % 4 == 0, "bytes of a matrix are no multiple of its values");
  expect(row_bytes >= columns * 4, "a row of a matrix has fewer bytes than its columns need");
}
void check_fits(const Matrix& matrix) {
  expect(matrix.end() <= [matrix.buffer.get() length], "a matrix is beyond the end of its buffer");
}
}  // namespace
}  // namespace apple

@implementation MPSMatrixDescriptor
MEMBERS(MPSMatrixDescriptor)
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                matrices:(NSUInteger)matrices
                                rowBytes:(NSUInteger)rowBytes
                             matrixBytes:(NSUInteger)matrixBytes
                                dataType:(MPSDataType)dataType {
  apple::expect(rows * columns * matrices != 0, "a matrix without values");
  apple::check_values(dataType, 0, rowBytes, columns);
  apple::expect(matrices == 1 || (matrixBytes % rowBytes == 0 && matrixBytes >= rows * rowBytes),
                "the bytes of a matrix are no multiple of its rows' bytes");
  MPSMatrixDescriptor* made = [[[self alloc] init] autorelease];
  made->_rows = rows, made->_columns = columns, made->_matrices = matrices;
  made->_rowBytes = rowBytes, made->_matrixBytes = matrixBytes, made->_dataType = dataType;
  return made;
}
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                rowBytes:(NSUInteger)rowBytes
                                dataType:(MPSDataType)dataType {
  return [self matrixDescriptorWithRows:rows
                                columns:columns
                               matrices:1
                               rowBytes:rowBytes
                            matrixBytes:rows * rowBytes
                               dataType:dataType];
}
// What the device likes best is told by no document; rows of whole sixteen bytes here.
+ (size_t)rowBytesForColumns:(NSUInteger)columns dataType:(MPSDataType)dataType {
  apple::check_values(dataType, 0, columns * 4, columns);
  return (columns * 4 + 15) / 16 * 16;
}
@end

@implementation MPSMatrix
MEMBERS(MPSMatrix)
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSMatrixDescriptor*)descriptor {
  self = [super init];
  apple::expect(buffer != nil && descriptor != nil, "a matrix without a buffer or a descriptor");
  apple::check_values(descriptor->_dataType, offset, descriptor->_rowBytes, descriptor->_columns);
  _device = [[buffer device] retain];
  _data = [buffer retain];
  _offset = offset;
  _rows = descriptor->_rows, _columns = descriptor->_columns, _matrices = descriptor->_matrices;
  _rowBytes = descriptor->_rowBytes, _matrixBytes = descriptor->_matrixBytes;
  _dataType = descriptor->_dataType;
  apple::check_fits(apple::read_matrix(self, "MPSMatrix"));
  return self;
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSMatrixDescriptor*)descriptor {
  return [self initWithBuffer:buffer offset:0 descriptor:descriptor];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSMatrixDescriptor*)descriptor {
  const NSUInteger bytes = descriptor->_matrices * descriptor->_matrixBytes;
  return [self initWithBuffer:apple::make_buffer(device, bytes) descriptor:descriptor];
}
- (NSUInteger)resourceSize {
  return [_data length];
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  apple::encodable(commandBuffer, "the synchronization of a matrix");
}
@end

@implementation MPSVectorDescriptor
MEMBERS(MPSVectorDescriptor)
+ (instancetype)vectorDescriptorWithLength:(NSUInteger)length
                                   vectors:(NSUInteger)vectors
                               vectorBytes:(NSUInteger)vectorBytes
                                  dataType:(MPSDataType)dataType {
  apple::expect(length * vectors != 0, "a vector without values");
  apple::check_values(dataType, 0, vectorBytes, length);
  MPSVectorDescriptor* made = [[[self alloc] init] autorelease];
  made->_length = length, made->_vectors = vectors;
  made->_vectorBytes = vectorBytes, made->_dataType = dataType;
  return made;
}
+ (instancetype)vectorDescriptorWithLength:(NSUInteger)length dataType:(MPSDataType)dataType {
  return [self vectorDescriptorWithLength:length
                                  vectors:1
                              vectorBytes:length * 4
                                 dataType:dataType];
}
+ (size_t)vectorBytesForLength:(NSUInteger)length dataType:(MPSDataType)dataType {
  return [MPSMatrixDescriptor rowBytesForColumns:length dataType:dataType];
}
@end

@implementation MPSVector
MEMBERS(MPSVector)
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSVectorDescriptor*)descriptor {
  self = [super init];
  apple::expect(buffer != nil && descriptor != nil, "a vector without a buffer or a descriptor");
  apple::check_values(descriptor->_dataType, offset, descriptor->_vectorBytes, descriptor->_length);
  _device = [[buffer device] retain];
  _data = [buffer retain];
  _offset = offset;
  _length = descriptor->_length, _vectors = descriptor->_vectors;
  _vectorBytes = descriptor->_vectorBytes, _dataType = descriptor->_dataType;
  apple::check_fits(apple::read_vector(self, "MPSVector"));
  return self;
}
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSVectorDescriptor*)descriptor {
  return [self initWithBuffer:buffer offset:0 descriptor:descriptor];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSVectorDescriptor*)descriptor {
  const NSUInteger bytes = descriptor->_vectors * descriptor->_vectorBytes;
  return [self initWithBuffer:apple::make_buffer(device, bytes) descriptor:descriptor];
}
- (NSUInteger)resourceSize {
  return [_data length];
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  apple::encodable(commandBuffer, "the synchronization of a vector");
}
@end
