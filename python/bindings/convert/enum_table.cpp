// Table of the enumerations: Apple's cases with their raw values and, of ML Compute, its
// descriptions. A case without a value is one more than the case before it. Precision, types of 64
// bits and bfloat16 are additions of traingraph.
#include "convert/enum_table.h"

#include <traingraph/activation.h>

namespace traingraph::python {

namespace {

// "NONE: None, RELU: ReLU, …" of the core's own table.
std::string activation_cases() {
  std::string cases;
  int type = 0;
  for (std::string name : activation_names()) {
    for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    cases += (type == 0 ? "" : ", ") + name + ": ";
    cases += debug_description(static_cast<ActivationType>(type++));
  }
  return cases;
}

}  // namespace

const std::vector<EnumRow>& enum_table() {
  static const std::vector<EnumRow> table = {
      {"MLCActivationType", false, "The function of an activation layer.", activation_cases()},
      {"MLCArithmeticOperation", false, "The operation of an arithmetic layer.",
       "ADD: Add, SUBTRACT: Subtract, MULTIPLY: Multiply, DIVIDE: Divide, FLOOR: Floor, ROUND: "
       "Round, CEIL: Ceil, SQRT: Sqrt, RSQRT: Rsqrt, SIN: Sin, COS: Cos, TAN: Tan, ASIN: Asin, "
       "ACOS: Acos, ATAN: Atan, SINH: Sinh, COSH: Cosh, TANH: Tanh, ASINH: Asinh, ACOSH: Acosh, "
       "ATANH: Atanh, POW: Pow, EXP: Exp, EXP2: Exp2, LOG: Log, LOG2: Log2, MULTIPLY_NO_NAN: "
       "MultiplyNoNaN, DIVIDE_NO_NAN: DivideNoNaN, MIN: ElementwiseMin, MAX: ElementwiseMax"},
      {"MLCComparisonOperation", false, "The operation of a comparison layer.",
       "EQUAL: Equal, NOT_EQUAL: Not Equal, LESS: Less, GREATER: Greater, LESS_OR_EQUAL: Less or "
       "Equal, GREATER_OR_EQUAL: Greater or Equal, LOGICAL_AND: Logical AND, LOGICAL_OR: Logical "
       "OR, LOGICAL_NOT: Logical NOT, LOGICAL_NAND: Logical NAND, LOGICAL_NOR: Logical NOR, "
       "LOGICAL_XOR: Logical XOR"},
      {"MLCConvolutionType", false, "How a convolution connects its channels.",
       "STANDARD: Standard, TRANSPOSED: Transposed, DEPTHWISE: Depthwise"},
      {"MLCDataType", false, "The type of an element; 101 and 102 are additions of traingraph.",
       "FLOAT32 = 1, FLOAT16 = 3, BOOLEAN, INT64, INT32 = 7, INT8, UINT8, FLOAT64 = 101, BFLOAT16"},
      {"MLCDeviceType", false, "A kind of hardware.", "CPU, GPU, ANY, ANE"},
      {"MLCExecutionOptions", true, "How one execution runs; joined by |.",
       "NONE, SKIP_WRITING_INPUT_DATA_TO_DEVICE, SYNCHRONOUS, PROFILING = 4, "
       "FORWARD_FOR_INFERENCE = 8, PER_LAYER_PROFILING = 16, CHECK_NUMERICS = 256"},
      {"MLCGradientClippingType", false, "The kind of clipping of gradients.",
       "BY_VALUE: By Value, BY_NORM: By Norm, BY_GLOBAL_NORM: By Global Norm"},
      {"MLCGraphCompilationOptions", true, "How a graph is compiled; joined by |.",
       "NONE, DEBUG_LAYERS, DISABLE_LAYER_FUSION, LINK_GRAPHS = 4, COMPUTE_ALL_GRADIENTS = 8, "
       "ANY_BATCH_SIZE = 256"},
      {"MLCLSTMResultMode", false, "What an LSTM layer returns.",
       "OUTPUT: Output, OUTPUT_AND_STATES: Output and States"},
      {"MLCLossType", false, "The function of a loss layer.",
       "MEAN_ABSOLUTE_ERROR: Absolute Error, MEAN_SQUARED_ERROR: Mean Squared Error, "
       "SOFTMAX_CROSS_ENTROPY: Softmax Cross Entropy, SIGMOID_CROSS_ENTROPY: Sigmoid Cross "
       "Entropy, CATEGORICAL_CROSS_ENTROPY: Categorical Cross Entropy, HINGE: Hinge, HUBER: "
       "Huber, COSINE_DISTANCE: Cosine Distance, LOG: Log"},
      {"MLCPaddingPolicy", false, "What surrounds an image: sized() gives explicit sizes.",
       "SAME: Same, VALID: Valid, USE_PADDING_SIZE: Use Padding Size"},
      {"MLCPaddingType", false, "The values that a padding layer fills in.",
       "ZERO: Zero, REFLECT: Reflect, SYMMETRIC: Symmetric, CONSTANT: Constant"},
      {"MLCPoolingType", false, "The function of a pooling layer.",
       "MAX = 1: Max, AVERAGE: Average, L2_NORM: L2 Norm"},
      {"MLCRandomInitializerType", false, "The distribution of random values.",
       "UNIFORM = 1, GLOROT_UNIFORM, XAVIER"},
      {"MLCReductionType", false, "What joins many values to one.",
       "NONE: None, SUM: Sum, MEAN: Mean, MAX: Max, MIN: Min, ARG_MAX: Arg Max, ARG_MIN: Arg "
       "Min, L1_NORM: L1Norm, ANY: Any, ALL: All"},
      {"MLCRegularizationType", false, "The penalty on weights.", "NONE, L1, L2"},
      {"MLCSampleMode", false, "How upsampling finds values between elements.",
       "NEAREST: Nearest, LINEAR: Linear"},
      {"MLCSoftmaxOperation", false, "Softmax or its logarithm.",
       "SOFTMAX: Softmax, LOG_SOFTMAX: Log Softmax"},
      {"Precision", false,
       "The precision of a compiled graph; an addition of traingraph. FLOAT32 is exact; TF32 lets "
       "products round float32 operands; MIXED_* compute in 16 bits beside float32 parameters.",
       "FLOAT32, TF32, MIXED_BFLOAT16, MIXED_FLOAT16"},
      {"MPSCNNConvolutionGradientOption", false,
       "Which gradients a convolution's gradient kernel computes.",
       "GRADIENT_WITH_DATA = 1, GRADIENT_WITH_WEIGHTS_AND_BIAS, ALL"},
      {"MPSCNNConvolutionWeightsLayout", false, "The order of weights in a buffer.", "OHWI"},
      {"MPSCNNLossType", false, "The function of a loss kernel.",
       "MEAN_ABSOLUTE_ERROR, MEAN_SQUARED_ERROR, SOFT_MAX_CROSS_ENTROPY, SIGMOID_CROSS_ENTROPY, "
       "CATEGORICAL_CROSS_ENTROPY, HINGE, HUBER, COSINE_DISTANCE, LOG, "
       "KULLBACK_LEIBLER_DIVERGENCE"},
      {"MPSCNNNeuronType", false, "The function of a neuron.",
       "NONE, RELU, LINEAR, SIGMOID, HARD_SIGMOID, TANH, ABSOLUTE, SOFT_PLUS, SOFT_SIGN, ELU, "
       "PRELU, RELUN, POWER, EXPONENTIAL, LOGARITHM, GELU"},
      {"MPSCNNReductionType", false, "What joins the values of a loss.",
       "NONE, SUM, MEAN, SUM_BY_NON_ZERO_WEIGHTS"},
      {"MPSDataLayout", false, "The order of elements outside of images.",
       "HEIGHT_X_WIDTH_X_FEATURE_CHANNELS, FEATURE_CHANNELS_X_HEIGHT_X_WIDTH"},
      {"MPSDataType", false, "The type of an element; FLOAT64 is an addition of traingraph.",
       "INVALID, FLOAT16 = 268435472, FLOAT32 = 268435488, FLOAT64 = 268435520"},
      {"MPSImageEdgeMode", false, "What lies beyond an image.",
       "ZERO, CLAMP, MIRROR, MIRROR_WITH_EDGE, CONSTANT"},
      {"MPSImageFeatureChannelFormat", false,
       "What an image's elements are; FLOAT64 is an addition of traingraph.",
       "NONE, UNORM8, UNORM16, FLOAT16, FLOAT32, FLOAT64 = 101"},
      {"MPSNNComparisonType", false,
       "The relation of a comparison; equal are two with a difference up to the threshold.",
       "EQUAL, NOT_EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL"},
      {"MPSNNPaddingMethod", true,
       "How a result's size and offset follow from its source; joined by |.",
       "ALIGN_CENTERED, ALIGN_TOP_LEFT, ALIGN_BOTTOM_RIGHT, ADD_REMAINDER_TO_TOP_LEFT = 0, "
       "ADD_REMAINDER_TO_TOP_RIGHT = 4, ADD_REMAINDER_TO_BOTTOM_LEFT = 8, "
       "ADD_REMAINDER_TO_BOTTOM_RIGHT = 12, SIZE_VALID_ONLY = 0, SIZE_SAME = 16, SIZE_FULL = 32, "
       "CUSTOM = 16384, EXCLUDE_EDGES = 32768"},
      {"MPSNNTrainingStyle", false,
       "Where a graph's trainable node calls its data source for an update.",
       "UPDATE_DEVICE_NONE, UPDATE_DEVICE_CPU, UPDATE_DEVICE_GPU"},
      {"MPSCNNBatchNormalizationFlags", false,
       "When a node normalizes with the statistics of the batch.",
       "DEFAULT, CALCULATE_STATISTICS_AUTOMATIC = 0, CALCULATE_STATISTICS_ALWAYS, "
       "CALCULATE_STATISTICS_NEVER"},
      {"MPSNNRegularizationType", false, "The penalty on weights.", "NONE, L1, L2"},
      {"MTLCommandBufferStatus", false, "How far a command buffer is.",
       "NOT_ENQUEUED, ENQUEUED, COMMITTED, SCHEDULED, COMPLETED, ERROR"},
  };
  return table;
}

}  // namespace traingraph::python
