#include <traingraph/class_description.h>
#include <traingraph/traingraph.h>

namespace traingraph {

const std::vector<DescribedClass>& layer_classes() {
  static const std::vector<DescribedClass> table = {
      Layer::class_description,
      ActivationDescriptor::class_description,
      Activation::class_description,
      Arithmetic::class_description,
      MatMulDescriptor::class_description,
      MatMul::class_description,
      BatchNormalization::class_description,
      GroupNormalization::class_description,
      InstanceNormalization::class_description,
      LayerNormalization::class_description,
      ConvolutionDescriptor::class_description,
      Convolution::class_description,
      FullyConnected::class_description,
      Concatenation::class_description,
      Reshape::class_description,
      Transpose::class_description,
      Split::class_description,
      Gather::class_description,
      Scatter::class_description,
      Selection::class_description,
      Comparison::class_description,
      Reduction::class_description,
      GramMatrix::class_description,
      Slice::class_description,
      Pad::class_description,
      Upsample::class_description,
      LossDescriptor::class_description,
      Loss::class_description,
      YOLOLossDescriptor::class_description,
      YOLOLoss::class_description,
      PoolingDescriptor::class_description,
      Pooling::class_description,
      Softmax::class_description,
      Dropout::class_description,
      LSTMDescriptor::class_description,
      LSTM::class_description,
      MultiheadAttentionDescriptor::class_description,
      MultiheadAttention::class_description,
      EmbeddingDescriptor::class_description,
      Embedding::class_description,
  };
  return table;
}

}  // namespace traingraph
