// Neurons over matrices: a row for each of the vectors, a column for each channel.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsmatrixneuron
#include <algorithm>

#include "image.h"
#include "matrix.h"
#include "neuron.h"

struct MPSMatrixNeuronInside {
  apple::Neuron neuron;
};

namespace {

using apple::Matrix;

apple::Neuron neuron_of(MPSCNNNeuronType type, float a, float b, float c) {
  return apple::Neuron([MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:type a:a b:b c:c]);
}

// The rows and columns that count; fails where the other matrix is smaller or overlaps the result.
struct Part {
  NSUInteger rows, columns;
};
Part part_of(const Matrix& from, const Matrix& to, NSUInteger rows, NSUInteger columns,
             const char* what) {
  const Part part{std::min(rows, from.rows), std::min(columns, from.columns)};
  if (to.rows < part.rows || to.columns < part.columns)
    apple::broken(what, "its matrices differ in size");
  if (to.overlaps(from)) apple::broken(what, "its result overlaps a source");
  return part;
}

}  // namespace

@implementation MPSMatrixNeuron
MEMBERS(MPSMatrixNeuron)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  _sourceNumberOfFeatureVectors = _sourceInputFeatureChannels = NSUIntegerMax;
  _alpha = 1;
  inside_MPSMatrixNeuron = std::make_shared<MPSMatrixNeuronInside>();
  return self;
}
- (void)setNeuronType:(MPSCNNNeuronType)neuronType
           parameterA:(float)parameterA
           parameterB:(float)parameterB
           parameterC:(float)parameterC {
  inside_MPSMatrixNeuron->neuron = neuron_of(neuronType, parameterA, parameterB, parameterC);
}
- (MPSCNNNeuronType)neuronType {
  return inside_MPSMatrixNeuron->neuron.type;
}
- (float)neuronParameterA {
  return inside_MPSMatrixNeuron->neuron.a;
}
- (float)neuronParameterB {
  return inside_MPSMatrixNeuron->neuron.b;
}
- (float)neuronParameterC {
  return inside_MPSMatrixNeuron->neuron.c;
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  inputMatrix:(MPSMatrix*)inputMatrix
                   biasVector:(MPSVector*)biasVector
                 resultMatrix:(MPSMatrix*)resultMatrix {
  const char* what = "MPSMatrixNeuron";
  if (biasVector != nil) apple::broken(what, "a bias has no behaviour on this double");
  const Matrix from = apple::read_matrix(inputMatrix, what);
  const Matrix to = apple::read_matrix(resultMatrix, what);
  const Part part =
      part_of(from, to, _sourceNumberOfFeatureVectors, _sourceInputFeatureChannels, what);
  apple::add_work(
      commandBuffer, what, [=, neuron = inside_MPSMatrixNeuron->neuron, alpha = _alpha] {
        for (NSUInteger i = 0; i < part.rows; ++i)
          for (NSUInteger j = 0; j < part.columns; ++j)
            to.at(0, i, j) = static_cast<float>(neuron.value(alpha * from.at(0, i, j), j));
      });
}
@end
