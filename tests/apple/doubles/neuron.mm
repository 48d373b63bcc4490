// Neurons: https://developer.apple.com/documentation/metalperformanceshaders/mpscnnneurontype
#include "neuron.h"

#include <algorithm>
#include <cmath>

#include "kernel.h"

namespace apple {

double Neuron::value(double x, NSUInteger channel) const {
  switch (type) {
    case MPSCNNNeuronTypeNone:
      return x;
    case MPSCNNNeuronTypeReLU:
      return x >= 0 ? x : a * x;
    case MPSCNNNeuronTypeLinear:
      return a * x + b;
    case MPSCNNNeuronTypeSigmoid:
      return 1 / (1 + std::exp(-x));
    case MPSCNNNeuronTypeHardSigmoid:
      return std::clamp(a * x + b, 0.0, 1.0);
    case MPSCNNNeuronTypeTanH:
      return a * std::tanh(b * x);
    case MPSCNNNeuronTypeAbsolute:
      return std::abs(x);
    // log(1 + e^t) without overflow.
    case MPSCNNNeuronTypeSoftPlus:
      return a * (std::max(b * x, 0.0) + std::log1p(std::exp(-std::abs(b * x))));
    case MPSCNNNeuronTypeSoftSign:
      return x / (1 + std::abs(x));
    case MPSCNNNeuronTypeELU:
      return x >= 0 ? x : a * std::expm1(x);
    case MPSCNNNeuronTypePReLU:
      return x >= 0 ? x : slopes.at(channel) * x;
    case MPSCNNNeuronTypeReLUN:
      return std::min<double>(x >= 0 ? x : a * x, b);
    case MPSCNNNeuronTypePower:
      return std::pow(a * x + b, c);
    case MPSCNNNeuronTypeExponential:
      return c == -1 ? std::exp(a * x + b) : std::pow(c, a * x + b);
    case MPSCNNNeuronTypeLogarithm:
      return c == -1 ? std::log(a * x + b) : std::log(a * x + b) / std::log(c);
    case MPSCNNNeuronTypeGeLU:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    default:
      fail("a neuron of an unknown type");
  }
}

double Neuron::derivative(double x, NSUInteger channel) const {
  switch (type) {
    case MPSCNNNeuronTypeNone:
      return 1;
    case MPSCNNNeuronTypeReLU:
      return x >= 0 ? 1 : a;
    case MPSCNNNeuronTypeLinear:
      return a;
    case MPSCNNNeuronTypeSigmoid:
      return value(x) * (1 - value(x));
    case MPSCNNNeuronTypeHardSigmoid:
      return a * x + b >= 0 && a * x + b <= 1 ? a : 0;
    case MPSCNNNeuronTypeTanH:
      return a * b * (1 - std::pow(std::tanh(b * x), 2));
    case MPSCNNNeuronTypeAbsolute:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case MPSCNNNeuronTypeSoftPlus:
      return a * b / (1 + std::exp(-b * x));
    case MPSCNNNeuronTypeSoftSign:
      return 1 / std::pow(1 + std::abs(x), 2);
    case MPSCNNNeuronTypeELU:
      return x >= 0 ? 1 : a * std::exp(x);
    case MPSCNNNeuronTypePReLU:
      return x >= 0 ? 1 : slopes.at(channel);
    // Apple's table says b where the limit holds; the derivative is 0.
    case MPSCNNNeuronTypeReLUN:
      return x >= b ? 0 : x >= 0 ? 1 : a;
    case MPSCNNNeuronTypePower:
      return a * c * std::pow(a * x + b, c - 1);
    case MPSCNNNeuronTypeExponential:
      return a * (c == -1 ? 1 : std::log(c)) * value(x);
    case MPSCNNNeuronTypeLogarithm:
      return a / ((a * x + b) * (c == -1 ? 1 : std::log(c)));
    case MPSCNNNeuronTypeGeLU:
      return (1 + std::erf(x / std::sqrt(2.0))) / 2 +
             x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    default:
      fail("a neuron of an unknown type");
  }
}

}  // namespace apple

@implementation MPSNNNeuronDescriptor
MEMBERS(MPSNNNeuronDescriptor)
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)neuronType
                                                    a:(float)a
                                                    b:(float)b
                                                    c:(float)c {
  MPSNNNeuronDescriptor* made = [[self alloc] autorelease];
  made->_neuronType = neuronType;
  made->_a = a, made->_b = b, made->_c = c;
  return made;
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)neuronType {
  return [self cnnNeuronDescriptorWithType:neuronType a:0 b:0 c:0];
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)neuronType a:(float)a {
  return [self cnnNeuronDescriptorWithType:neuronType a:a b:0 c:0];
}
+ (MPSNNNeuronDescriptor*)cnnNeuronDescriptorWithType:(MPSCNNNeuronType)neuronType
                                                    a:(float)a
                                                    b:(float)b {
  return [self cnnNeuronDescriptorWithType:neuronType a:a b:b c:0];
}
+ (MPSNNNeuronDescriptor*)cnnNeuronPReLUDescriptorWithData:(NSData*)data noCopy:(bool)noCopy {
  (void)noCopy;
  auto* made = [self cnnNeuronDescriptorWithType:MPSCNNNeuronTypePReLU];
  [made setData:data];
  return made;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  auto* made = [[self class] cnnNeuronDescriptorWithType:_neuronType a:_a b:_b c:_c];
  [made setData:_data];
  return [made retain];
}
@end

template <class Kernel>
static void take_neuron(Kernel* kernel, MPSNNNeuronDescriptor* descriptor) {
  apple::expect(descriptor != nil, "a neuron kernel without its descriptor");
  kernel->_neuronType = descriptor->_neuronType;
  kernel->_a = descriptor->_a, kernel->_b = descriptor->_b, kernel->_c = descriptor->_c;
  kernel->_data = [descriptor->_data retain];
}

@implementation MPSCNNNeuron
MEMBERS(MPSCNNNeuron)
- (instancetype)initWithDevice:(id<MTLDevice>)device
              neuronDescriptor:(MPSNNNeuronDescriptor*)neuronDescriptor {
  self = [super initWithDevice:device];
  take_neuron(self, neuronDescriptor);
  return self;
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [neuron = apple::Neuron(self)](const apple::Picture& from, const apple::Picture& to) {
    from.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      to.set(x, y, c, static_cast<float>(neuron.value(from.get(x, y, c), c)));
    });
  };
}
@end

@implementation MPSCNNNeuronGradient
MEMBERS(MPSCNNNeuronGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
              neuronDescriptor:(MPSNNNeuronDescriptor*)neuronDescriptor {
  self = [super initWithDevice:device];
  take_neuron(self, neuronDescriptor);
  return self;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [neuron = apple::Neuron(self)](const apple::Picture& gradient,
                                        const apple::Picture& source, const apple::Picture& to) {
    source.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      to.set(x, y, c,
             static_cast<float>(gradient.get(x, y, c) * neuron.derivative(source.get(x, y, c), c)));
    });
  };
}
@end
