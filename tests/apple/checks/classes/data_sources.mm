// Data sources whose arrays Python sets.
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <vector>

@interface CheckWeights : NSObject <MPSCNNConvolutionDataSource> {
  MPSCNNConvolutionDescriptor* descriptor_;
  std::vector<float> weights_, biases_;
  BOOL half_;
  int loads_;
}
- (instancetype)initWithDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           weights:(const float*)weights
                             count:(NSUInteger)count
                            biases:(const float*)biases;
- (void)setHalf:(BOOL)half;
- (int)loads;
@end

@implementation CheckWeights
- (instancetype)initWithDescriptor:(MPSCNNConvolutionDescriptor*)descriptor
                           weights:(const float*)weights
                             count:(NSUInteger)count
                            biases:(const float*)biases {
  self = [super init];
  descriptor_ = [descriptor retain];
  weights_.assign(weights, weights + count);
  if (biases != nullptr) biases_.assign(biases, biases + [descriptor outputFeatureChannels]);
  return self;
}
- (void)dealloc {
  [descriptor_ release];
  [super dealloc];
}
- (void)setHalf:(BOOL)half {
  half_ = half;
}
- (int)loads {
  return loads_;
}
- (MPSDataType)dataType {
  return MPSDataTypeFloat32;
}
- (MPSDataType)kernelWeightsDataType {
  return half_ ? MPSDataTypeFloat16 : MPSDataTypeFloat32;
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  return descriptor_;
}
- (void*)weights {
  return weights_.data();
}
- (float*)biasTerms {
  return biases_.empty() ? nullptr : biases_.data();
}
- (BOOL)load {
  ++loads_;
  return YES;
}
- (void)purge {
}
- (NSString*)label {
  return nil;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end

@interface CheckNormalization : NSObject <MPSCNNBatchNormalizationDataSource> {
  std::vector<float> values_[4];
  float epsilon_;
}
- (instancetype)initWithGamma:(const float*)gamma
                         beta:(const float*)beta
                         mean:(const float*)mean
                     variance:(const float*)variance
                        count:(NSUInteger)count
                      epsilon:(float)epsilon;
@end

@implementation CheckNormalization
- (instancetype)initWithGamma:(const float*)gamma
                         beta:(const float*)beta
                         mean:(const float*)mean
                     variance:(const float*)variance
                        count:(NSUInteger)count
                      epsilon:(float)epsilon {
  self = [super init];
  const float* given[4] = {gamma, beta, mean, variance};
  for (int index = 0; index < 4; ++index) values_[index].assign(given[index], given[index] + count);
  epsilon_ = epsilon;
  return self;
}
- (NSUInteger)numberOfFeatureChannels {
  return values_[0].size();
}
- (float*)gamma {
  return values_[0].data();
}
- (float*)beta {
  return values_[1].data();
}
- (float*)mean {
  return values_[2].data();
}
- (float*)variance {
  return values_[3].data();
}
- (float)epsilon {
  return epsilon_;
}
- (BOOL)load {
  return YES;
}
- (void)purge {
}
- (NSString*)label {
  return nil;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end

// Of instance and of group normalization; a null array is left out.
@interface CheckGroups
    : NSObject <MPSCNNInstanceNormalizationDataSource, MPSCNNGroupNormalizationDataSource> {
  std::vector<float> gamma_, beta_;
  NSUInteger channels_, groups_;
  float epsilon_;
}
- (instancetype)initWithGamma:(const float*)gamma
                         beta:(const float*)beta
                     channels:(NSUInteger)channels
                       groups:(NSUInteger)groups
                      epsilon:(float)epsilon;
@end

@implementation CheckGroups
- (instancetype)initWithGamma:(const float*)gamma
                         beta:(const float*)beta
                     channels:(NSUInteger)channels
                       groups:(NSUInteger)groups
                      epsilon:(float)epsilon {
  self = [super init];
  if (gamma != nullptr) gamma_.assign(gamma, gamma + channels);
  if (beta != nullptr) beta_.assign(beta, beta + channels);
  channels_ = channels, groups_ = groups, epsilon_ = epsilon;
  return self;
}
- (NSUInteger)numberOfFeatureChannels {
  return channels_;
}
- (NSUInteger)numberOfGroups {
  return groups_;
}
- (void)setNumberOfGroups:(NSUInteger)groups {
  groups_ = groups;
}
- (float*)gamma {
  return gamma_.empty() ? nullptr : gamma_.data();
}
- (float*)beta {
  return beta_.empty() ? nullptr : beta_.data();
}
- (float)epsilon {
  return epsilon_;
}
- (NSString*)label {
  return nil;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end
