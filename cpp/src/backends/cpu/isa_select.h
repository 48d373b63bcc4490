#pragma once

#include <string>

// Hand-written loops exist once per instruction level; which one runs is decided once.
namespace traingraph::cpu {

struct AttentionLoops;
struct BatchNormLoops;
struct BlockedProductLoops;
struct DataMovementLoops;
struct DropoutLoops;
struct ElementwiseLoops;
struct ExtremumLoops;
struct HalfLoops;
struct LstmLoops;
struct MatrixLoops;
struct PoolingLoops;
struct ReduceLoops;
struct RowNormLoops;
struct SoftmaxLoops;
struct WinogradLoops;

struct Loops {
  const char* level;
  const ElementwiseLoops* elementwise;
  const ReduceLoops* reduce;
  const MatrixLoops* matrix;
  const BlockedProductLoops* blocked_product;
  const BatchNormLoops* batch_norm;
  const SoftmaxLoops* softmax;
  const PoolingLoops* pooling;
  const ExtremumLoops* extremum;
  const RowNormLoops* row_norm;
  const LstmLoops* lstm;
  const AttentionLoops* attention;
  const DataMovementLoops* data_movement;
  const DropoutLoops* dropout;
  const HalfLoops* half;
  const WinogradLoops* winograd;
};

// The best level of this machine, lowered by the environment variable TRAINGRAPH_ISA. Raises
// DeviceError with the text of why_no_level().
const Loops& loops();

// Empty, or why no level can be chosen: the variable names none, or the machine is too old.
std::string why_no_level();

}  // namespace traingraph::cpu
