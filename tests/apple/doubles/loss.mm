// Losses. The result image is the derivative of the reported loss with respect to the source, the
// loss itself goes into the labels' loss image. How a reduction scales the gradient is told by no
// document: here it does as the loss says.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnloss
#include <algorithm>
#include <cmath>

#include "kernel.h"

struct MPSCNNLossDataDescriptorInside {
  std::vector<float> values;
};

namespace {

using apple::Extent;
using apple::Picture;

struct Loss {
  MPSCNNLossType type;
  MPSCNNReductionType reduction;
  double weight, smoothing, classes, epsilon, delta;
};

// A loss and its derivative with respect to y.
struct Term {
  double value, slope;
};

double sigmoid(double y) { return 1 / (1 + std::exp(-y)); }
double sign(double y) { return y > 0 ? 1 : y < 0 ? -1 : 0; }

Term term(const Loss& loss, double y, double t) {
  switch (loss.type) {
    case MPSCNNLossTypeMeanAbsoluteError:
      return {std::abs(y - t), sign(y - t)};
    case MPSCNNLossTypeMeanSquaredError:
      return {(y - t) * (y - t), 2 * (y - t)};
    case MPSCNNLossTypeSigmoidCrossEntropy:
      t = t * (1 - loss.smoothing) + loss.smoothing / 2;
      return {std::max(y, 0.0) - y * t + std::log1p(std::exp(-std::abs(y))), sigmoid(y) - t};
    case MPSCNNLossTypeCategoricalCrossEntropy:
      return {-t * std::log(y), -t / y};
    case MPSCNNLossTypeHuber: {
      const double d = y - t;
      if (std::abs(d) <= loss.delta) return {d * d / 2, d};
      return {loss.delta * (std::abs(d) - loss.delta / 2), loss.delta * sign(d)};
    }
    case MPSCNNLossTypeLog:
      return {-t * std::log(y + loss.epsilon) - (1 - t) * std::log(1 - y + loss.epsilon),
              -t / (y + loss.epsilon) + (1 - t) / (1 - y + loss.epsilon)};
    default:
      apple::fail("MPSCNNLoss: this type has no behaviour on this double");
  }
}

// Over the channels of one texel: values(channel, loss, slope); softmax reports one for all of
// them.
template <class Visit>
void each_term(const Loss& loss, const Picture& source, const Picture& labels, NSUInteger x,
               NSUInteger y, Visit visit) {
  if (loss.type != MPSCNNLossTypeSoftMaxCrossEntropy) {
    for (NSUInteger c = 0; c < source.channels; ++c) {
      const Term found = term(loss, source.get(x, y, c), labels.get(x, y, c));
      visit(c, found.value, found.slope);
    }
    return;
  }
  const double classes = loss.classes > 1 ? loss.classes : static_cast<double>(source.channels);
  double most = source.get(x, y, 0), sum = 0, total = 0;
  const auto label = [&](NSUInteger c) {
    return labels.get(x, y, c) * (1 - loss.smoothing) + loss.smoothing / classes;
  };
  for (NSUInteger c = 1; c < source.channels; ++c)
    most = std::max<double>(most, source.get(x, y, c));
  for (NSUInteger c = 0; c < source.channels; ++c) {
    sum += std::exp(source.get(x, y, c) - most);
    total += label(c);
  }
  for (NSUInteger c = 0; c < source.channels; ++c) {
    const double logarithm = source.get(x, y, c) - most - std::log(sum);
    visit(c, -label(c) * logarithm, std::exp(logarithm) * total - label(c));
  }
}

void lose(const Loss& loss, const Picture& source, const Picture& labels, const Picture& report,
          const Picture& to) {
  const bool softmax = loss.type == MPSCNNLossTypeSoftMaxCrossEntropy;
  const bool reduced = loss.reduction != MPSCNNReductionTypeNone;
  double scale = loss.weight, sum = 0;
  if (loss.reduction == MPSCNNReductionTypeMean)
    scale /=
        static_cast<double>(source.width() * source.height() * (softmax ? 1 : source.channels));
  for (NSUInteger y = 0; y < source.height(); ++y)
    for (NSUInteger x = 0; x < source.width(); ++x) {
      double of_texel = 0;
      each_term(loss, source, labels, x, y, [&](NSUInteger c, double value, double slope) {
        to.set(x, y, c, static_cast<float>(scale * slope));
        of_texel += scale * value;
        if (!reduced && !softmax) report.set(x, y, c, static_cast<float>(scale * value));
      });
      if (!reduced && softmax) report.set(x, y, 0, static_cast<float>(of_texel));
      sum += of_texel;
    }
  if (reduced) report.set(0, 0, 0, static_cast<float>(sum));
}

}  // namespace

@implementation MPSCNNLossDataDescriptor
MEMBERS(MPSCNNLossDataDescriptor)
+ (MPSCNNLossDataDescriptor*)cnnLossDataDescriptorWithData:(NSData*)data
                                                    layout:(MPSDataLayout)layout
                                                      size:(MTLSize)size {
  const NSUInteger count = size.width * size.height * size.depth;
  apple::expect([data length] >= count * sizeof(float), "the data of a loss is too short");
  MPSCNNLossDataDescriptor* made = [[self alloc] autorelease];
  made->_layout = layout;
  made->_size = size;
  made->inside_MPSCNNLossDataDescriptor = std::make_shared<MPSCNNLossDataDescriptorInside>();
  const auto* first = static_cast<const float*>([data bytes]);
  made->inside_MPSCNNLossDataDescriptor->values.assign(first, first + count);
  return made;
}
@end

@implementation MPSCNNLossDescriptor
MEMBERS(MPSCNNLossDescriptor)
+ (MPSCNNLossDescriptor*)cnnLossDescriptorWithType:(MPSCNNLossType)lossType
                                     reductionType:(MPSCNNReductionType)reductionType {
  MPSCNNLossDescriptor* made = [[self alloc] autorelease];
  made->_lossType = lossType;
  made->_reductionType = reductionType;
  made->_weight = made->_delta = 1;
  made->_epsilon = 1e-7f;
  made->_numberOfClasses = 1;
  return made;
}
@end

struct MPSCNNLossLabelsInside {
  apple::Kept<MPSImage*> loss, labels;
};

@implementation MPSCNNLossLabels
MEMBERS(MPSCNNLossLabels)
- (instancetype)initWithDevice:(id<MTLDevice>)device
              labelsDescriptor:(MPSCNNLossDataDescriptor*)labelsDescriptor {
  return [self initWithDevice:device
                lossImageSize:MTLSizeMake(1, 1, 1)
             labelsDescriptor:labelsDescriptor
            weightsDescriptor:nil];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 lossImageSize:(MTLSize)lossImageSize
              labelsDescriptor:(MPSCNNLossDataDescriptor*)labelsDescriptor
             weightsDescriptor:(MPSCNNLossDataDescriptor*)weightsDescriptor {
  apple::expect(weightsDescriptor == nil, "weights of labels have no behaviour on this double");
  const MTLSize size = labelsDescriptor->_size;
  MPSImage* labels = [self apple_image:size device:device];
  [labels writeBytes:labelsDescriptor->inside_MPSCNNLossDataDescriptor->values.data()
          dataLayout:labelsDescriptor->_layout
          imageIndex:0];
  return [self initWithDevice:device
                lossImageSize:lossImageSize
                  labelsImage:labels
                 weightsImage:nil];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 lossImageSize:(MTLSize)lossImageSize
                   labelsImage:(MPSImage*)labelsImage
                  weightsImage:(MPSImage*)weightsImage {
  apple::expect(weightsImage == nil, "weights of labels have no behaviour on this double");
  self = [super initWithResources:[NSArray array]];
  inside_MPSCNNLossLabels = std::make_shared<MPSCNNLossLabelsInside>();
  inside_MPSCNNLossLabels->labels = labelsImage;
  inside_MPSCNNLossLabels->loss = [self apple_image:lossImageSize device:device];
  return self;
}
- (MPSImage*)apple_image:(MTLSize)size device:(id<MTLDevice>)device {
  MPSImageDescriptor* descriptor =
      [MPSImageDescriptor imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat32
                                                     width:size.width
                                                    height:size.height
                                           featureChannels:size.depth];
  return [[[MPSImage alloc] initWithDevice:device imageDescriptor:descriptor] autorelease];
}
- (MPSImage*)lossImage {
  return inside_MPSCNNLossLabels->loss;
}
- (MPSImage*)labelsImage {
  return inside_MPSCNNLossLabels->labels;
}
@end

@implementation MPSCNNLoss
MEMBERS(MPSCNNLoss)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                lossDescriptor:(MPSCNNLossDescriptor*)lossDescriptor {
  self = [super initWithDevice:device];
  apple::expect(lossDescriptor != nil, "a loss without its descriptor");
  apple::expect(
      !lossDescriptor->_reduceAcrossBatch &&
          lossDescriptor->_reductionType <= MPSCNNReductionTypeMean,
      "a reduction of losses across a batch or by weights has no behaviour on this double");
  _lossType = lossDescriptor->_lossType;
  _reductionType = lossDescriptor->_reductionType;
  _weight = lossDescriptor->_weight;
  _labelSmoothing = lossDescriptor->_labelSmoothing;
  _numberOfClasses = lossDescriptor->_numberOfClasses;
  _epsilon = lossDescriptor->_epsilon;
  _delta = lossDescriptor->_delta;
  return self;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                            labels:(MPSCNNLossLabelsBatch*)labels
                 destinationImages:(MPSImageBatch*)destinationImages {
  const char* what = "MPSCNNLoss";
  const apple::Pictures sources = apple::read(sourceImages, commandBuffer, what);
  const apple::Pictures results =
      apple::write(destinationImages, commandBuffer, what, {sourceImages});
  if (results.size() != sources.size() || [labels count] != sources.size())
    apple::broken(what, "its batches differ in size");
  const Loss loss{
      _lossType, _reductionType, _weight, _labelSmoothing, static_cast<double>(_numberOfClasses),
      _epsilon,  _delta};
  const bool softmax = _lossType == MPSCNNLossTypeSoftMaxCrossEntropy;
  for (NSUInteger index = 0; index < sources.size(); ++index) {
    MPSCNNLossLabels* of_image = [labels objectAtIndex:index];
    apple::read_state(of_image, commandBuffer, what);
    const Picture& source = sources[index];
    const Picture given =
        apple::read([NSArray arrayWithObject:[of_image labelsImage]], commandBuffer, what)[0];
    const Picture report = apple::write([NSArray arrayWithObject : [of_image lossImage]],
                                        commandBuffer, what, { sourceImages })[0];
    if (given.width() != source.width() || given.height() != source.height() ||
        given.channels != source.channels)
      apple::broken(what, "labels and source differ in size");
    const bool reduced = _reductionType != MPSCNNReductionTypeNone;
    const Extent expected{reduced ? 1 : source.width(), reduced ? 1 : source.height(),
                          reduced || softmax ? 1 : source.channels};
    if (!(Extent{report.width(), report.height(), report.channels} == expected))
      apple::broken(what, "the loss image has not the size of what is reported");
    apple::add_work(commandBuffer, what,
                    [=, to = results[index], kept = apple::Kept<MPSCNNLossLabels*>(of_image)] {
                      lose(loss, source, given, report, to);
                    });
  }
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceImage:(MPSImage*)sourceImage
                       labels:(MPSCNNLossLabels*)labels
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                      sourceImages:[NSArray arrayWithObject:sourceImage]
                            labels:[NSArray arrayWithObject:labels]
                 destinationImages:[NSArray arrayWithObject:destinationImage]];
}
@end
