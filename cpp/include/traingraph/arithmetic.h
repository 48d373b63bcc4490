// The elementwise layer `Arithmetic`, with one or two broadcast sources, and the matrix product
// `MatMul`.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class ArithmeticOperation : int {
  kAdd = 0,
  kSubtract = 1,
  kMultiply = 2,
  kDivide = 3,
  kFloor = 4,
  kRound = 5,
  kCeil = 6,
  kSqrt = 7,
  kRsqrt = 8,
  kSin = 9,
  kCos = 10,
  kTan = 11,
  kAsin = 12,
  kAcos = 13,
  kAtan = 14,
  kSinh = 15,
  kCosh = 16,
  kTanh = 17,
  kAsinh = 18,
  kAcosh = 19,
  kAtanh = 20,
  kPow = 21,
  kExp = 22,
  kExp2 = 23,
  kLog = 24,
  kLog2 = 25,
  kMultiplyNoNaN = 26,
  kDivideNoNaN = 27,
  kMin = 28,
  kMax = 29,
};

// Element by element. Add, subtract, multiply, divide, pow, multiply_no_nan, divide_no_nan, min and
// max take two sources, which broadcast as NumPy does; the others take one.
class TRAINGRAPH_API Arithmetic final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Arithmetic(ArithmeticOperation operation);
  ArithmeticOperation operation() const { return operation_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  ArithmeticOperation operation_;
};

struct TRAINGRAPH_API MatMulDescriptor {
  static const ClassDescription& class_description();
  float alpha = 1.0f;
  bool transposes_x = false;
  bool transposes_y = false;
};

// alpha * op(x) op(y) on the last two axes; leading axes broadcast from the back.
class TRAINGRAPH_API MatMul final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit MatMul(MatMulDescriptor descriptor = {});
  const MatMulDescriptor& descriptor() const { return descriptor_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  MatMulDescriptor descriptor_;
};

}  // namespace traingraph
