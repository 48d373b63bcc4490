// MPSCNNLoss: the result image is the derivative of the reported loss with respect to the source,
// the loss itself goes into the labels' loss image.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnloss
#include "loss_terms.h"

struct MPSCNNLossDataDescriptorInside {
  std::vector<float> values;
};

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
  apple::Kept<MPSImage*> loss, labels, weights;
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
  return [self initWithDevice:device
                lossImageSize:lossImageSize
                  labelsImage:[self apple_imageOf:labelsDescriptor device:device]
                 weightsImage:[self apple_imageOf:weightsDescriptor device:device]];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 lossImageSize:(MTLSize)lossImageSize
                   labelsImage:(MPSImage*)labelsImage
                  weightsImage:(MPSImage*)weightsImage {
  apple::expect(labelsImage != nil, "labels of a loss without an image");
  self = [super initWithResources:[NSArray array]];
  inside_MPSCNNLossLabels = std::make_shared<MPSCNNLossLabelsInside>();
  inside_MPSCNNLossLabels->labels = labelsImage;
  inside_MPSCNNLossLabels->weights = weightsImage;
  inside_MPSCNNLossLabels->loss = [self apple_image:lossImageSize device:device];
  return self;
}
- (MPSImage*)apple_imageOf:(MPSCNNLossDataDescriptor*)descriptor device:(id<MTLDevice>)device {
  if (descriptor == nil) return nil;
  MPSImage* image = [self apple_image:descriptor->_size device:device];
  [image writeBytes:descriptor->inside_MPSCNNLossDataDescriptor->values.data()
         dataLayout:descriptor->_layout
         imageIndex:0];
  return image;
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
- (MPSImage*)weightsImage {
  return inside_MPSCNNLossLabels->weights;
}
@end

@implementation MPSCNNLoss
MEMBERS(MPSCNNLoss)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                lossDescriptor:(MPSCNNLossDescriptor*)lossDescriptor {
  self = [super initWithDevice:device];
  apple::take_loss(self, lossDescriptor);
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
  const apple::Loss loss = apple::loss_of(self);
  std::vector<apple::LossTerms> images;
  apple::Pictures reports;
  for (NSUInteger index = 0; index < sources.size(); ++index) {
    MPSCNNLossLabels* of_image = [labels objectAtIndex:index];
    apple::read_state(of_image, commandBuffer, what);
    const auto read_one = [&](MPSImage* image) {
      return apple::read([NSArray arrayWithObject:image], commandBuffer, what)[0];
    };
    images.push_back({sources[index], read_one([of_image labelsImage]), {}});
    if ([of_image weightsImage] != nil) images.back().weights = read_one([of_image weightsImage]);
    MPSImage* report = [of_image lossImage];
    if (!(apple::Extent{[report width], [report height], [report featureChannels]} ==
          loss.reported_of(
              {sources[index].width(), sources[index].height(), sources[index].channels})))
      apple::broken(what, "the loss image has not the size of what is reported");
    MPSImageBatch* one = [NSArray arrayWithObject:report];
    reports.push_back(apple::write(one, commandBuffer, what, {sourceImages})[0]);
  }
  apple::check_terms(loss, images, what);
  using Labels = apple::Kept<MPSCNNLossLabelsBatch*>;
  apple::add_work(commandBuffer, what, [=, kept = Labels(labels)] {
    apple::report(loss, images, reports);
    apple::differentiate(loss, images, {}, false, results);
  });
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
