// Neurons that are named after their function: MPSCNNNeuron with that type.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnneuron
#include "kernel.h"

@implementation MPSCNNNeuronAbsolute
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self initWithDevice:device
             neuronDescriptor:[MPSNNNeuronDescriptor
                                  cnnNeuronDescriptorWithType:MPSCNNNeuronTypeAbsolute]];
}
@end

@implementation MPSCNNNeuronELU
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a {
  return [self initWithDevice:device
             neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeELU
                                                                               a:a]];
}
@end

@implementation MPSCNNNeuronExponential
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b c:(float)c {
  return [self initWithDevice:device
             neuronDescriptor:[MPSNNNeuronDescriptor
                                  cnnNeuronDescriptorWithType:MPSCNNNeuronTypeExponential
                                                            a:a
                                                            b:b
                                                            c:c]];
}
@end

@implementation MPSCNNNeuronHardSigmoid
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b {
  return [self initWithDevice:device
             neuronDescriptor:[MPSNNNeuronDescriptor
                                  cnnNeuronDescriptorWithType:MPSCNNNeuronTypeHardSigmoid
                                                            a:a
                                                            b:b]];
}
@end

@implementation MPSCNNNeuronLinear
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b {
  return
      [self initWithDevice:device
          neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeLinear
                                                                            a:a
                                                                            b:b]];
}
@end

@implementation MPSCNNNeuronLogarithm
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b c:(float)c {
  return [self
        initWithDevice:device
      neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeLogarithm
                                                                        a:a
                                                                        b:b
                                                                        c:c]];
}
@end

@implementation MPSCNNNeuronPower
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b c:(float)c {
  return
      [self initWithDevice:device
          neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypePower
                                                                            a:a
                                                                            b:b
                                                                            c:c]];
}
@end

@implementation MPSCNNNeuronReLU
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a {
  return
      [self initWithDevice:device
          neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeReLU
                                                                            a:a]];
}
@end

@implementation MPSCNNNeuronReLUN
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b {
  return
      [self initWithDevice:device
          neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeReLUN
                                                                            a:a
                                                                            b:b]];
}
@end

@implementation MPSCNNNeuronSigmoid
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self
        initWithDevice:device
      neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeSigmoid]];
}
@end

@implementation MPSCNNNeuronSoftPlus
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b {
  return [self
        initWithDevice:device
      neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeSoftPlus
                                                                        a:a
                                                                        b:b]];
}
@end

@implementation MPSCNNNeuronSoftSign
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self initWithDevice:device
             neuronDescriptor:[MPSNNNeuronDescriptor
                                  cnnNeuronDescriptorWithType:MPSCNNNeuronTypeSoftSign]];
}
@end

@implementation MPSCNNNeuronTanH
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(float)a b:(float)b {
  return
      [self initWithDevice:device
          neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeTanH
                                                                            a:a
                                                                            b:b]];
}
@end

// One slope for each channel.
@implementation MPSCNNNeuronPReLU
- (instancetype)initWithDevice:(id<MTLDevice>)device a:(const float*)a count:(NSUInteger)count {
  NSData* slopes = [NSData dataWithBytes:a length:count * sizeof(float)];
  return [self initWithDevice:device
             neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronPReLUDescriptorWithData:slopes
                                                                               noCopy:false]];
}
@end
