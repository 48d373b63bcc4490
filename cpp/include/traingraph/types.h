// Element types, shapes and the options of compile and execute. Enumerations carry ML Compute's raw
// values; kFloat64, kBFloat16 and kCheckNumerics are additions of this library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <traingraph/export.h>

namespace traingraph {

using Shape = std::vector<std::int64_t>;

// What a stored element is. INT64 and INT32 serve class labels; FLOAT64 runs by plain
// loops, on the cpu backend too.
enum class DataType : int {
  kInvalid = 0,
  kFloat32 = 1,
  kFloat16 = 3,
  kBoolean = 4,
  kInt64 = 5,
  kInt32 = 7,
  kInt8 = 8,
  kUInt8 = 9,
  kFloat64 = 101,
  kBFloat16 = 102,
};

enum class DeviceType : int { kCpu = 0, kGpu = 1, kAny = 2, kAne = 3 };

enum class ReductionType : int {
  kNone = 0,
  kSum = 1,
  kMean = 2,
  kMax = 3,
  kMin = 4,
  kArgMax = 5,
  kArgMin = 6,
  kL1Norm = 7,
  kAny = 8,
  kAll = 9,
};

enum class PaddingPolicy : int { kSame = 0, kValid = 1, kUsePaddingSize = 2 };

enum class CompilationOptions : unsigned {
  kNone = 0,
  kDebugLayers = 1,
  kDisableLayerFusion = 2,
  kLinkGraphs = 4,
  kComputeAllGradients = 8,
  // An addition of this library: calls with fewer rows than the declared batch run in a program of
  // that size. They compile nothing, and take about as long as whole ones.
  kAnyBatchSize = 256,
};

// What a compiled graph computes in, an addition of this library. kFloat32 is exact. kTf32 lets
// matrix products and convolutions round their float32 operands to 11 significant bits where a
// backend has such units; one without them computes exactly. kMixedBFloat16 and kMixedFloat16 keep
// parameters, the optimizer's buffers, losses and statistics in float32 and compute the rest in 16
// bits; kMixedFloat16 scales the loss.
enum class Precision : int {
  kFloat32 = 0,
  kTf32 = 1,
  kMixedBFloat16 = 2,
  kMixedFloat16 = 3,
};

enum class ExecutionOptions : unsigned {
  kNone = 0,
  kSkipWritingInputDataToDevice = 1,
  kSynchronous = 2,
  kProfiling = 4,
  kForwardForInference = 8,
  kPerLayerProfiling = 16,
  // An addition of this library: stop at the first NaN or infinity of the forward or gradient pass,
  // before anything is updated. Raises NumericError.
  kCheckNumerics = 256,
};

constexpr CompilationOptions operator|(CompilationOptions a, CompilationOptions b) {
  return static_cast<CompilationOptions>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr ExecutionOptions operator|(ExecutionOptions a, ExecutionOptions b) {
  return static_cast<ExecutionOptions>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(CompilationOptions set, CompilationOptions flag) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(flag)) != 0;
}
constexpr bool has(ExecutionOptions set, ExecutionOptions flag) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(flag)) != 0;
}

// Bytes of one element; 0 for an invalid type.
TRAINGRAPH_API std::size_t element_bytes(DataType type);
// "float32", …; the spelling NumPy uses where it has the type.
TRAINGRAPH_API const char* name(DataType type);
// "float32", "tf32", "mixed_bfloat16", "mixed_float16"
TRAINGRAPH_API const char* name(Precision precision);
TRAINGRAPH_API bool is_floating_point(DataType type);
// Product of the extents, or the largest number where it lies beyond; 1 for rank 0.
TRAINGRAPH_API std::int64_t element_count(const Shape& shape);
// The bytes of so many elements, or the largest number where they lie beyond.
TRAINGRAPH_API std::int64_t byte_count(const Shape& shape, DataType type);
// What no machine can hold: more bytes in one piece are refused. Sums of thousands of tensors below
// it are still numbers of 64 bits.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
// "(4, 1)"
TRAINGRAPH_API std::string to_string(const Shape& shape);

}  // namespace traingraph
