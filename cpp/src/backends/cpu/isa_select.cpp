// Selects the best instruction-set level that this machine has, up to the one that TRAINGRAPH_ISA
// names, and returns its loops.
#include "backends/cpu/isa_select.h"

#include <cstdlib>
#include <iterator>

#include <traingraph/errors.h>

namespace traingraph::cpu {

#define TRAINGRAPH_LEVEL(level)                           \
  namespace level {                                       \
  extern const ElementwiseLoops elementwise_loops;        \
  extern const ReduceLoops reduce_loops;                  \
  extern const MatrixLoops matrix_loops;                  \
  extern const BlockedProductLoops blocked_product_loops; \
  extern const BatchNormLoops batch_norm_loops;           \
  extern const SoftmaxLoops softmax_loops;                \
  extern const PoolingLoops pooling_loops;                \
  extern const ExtremumLoops extremum_loops;              \
  extern const RowNormLoops row_norm_loops;               \
  extern const LstmLoops lstm_loops;                      \
  extern const AttentionLoops attention_loops;            \
  extern const DataMovementLoops data_movement_loops;     \
  extern const DropoutLoops dropout_loops;                \
  extern const HalfLoops half_loops;                      \
  extern const WinogradLoops winograd_loops;              \
  constexpr Loops loops{#level,                           \
                        &elementwise_loops,               \
                        &reduce_loops,                    \
                        &matrix_loops,                    \
                        &blocked_product_loops,           \
                        &batch_norm_loops,                \
                        &softmax_loops,                   \
                        &pooling_loops,                   \
                        &extremum_loops,                  \
                        &row_norm_loops,                  \
                        &lstm_loops,                      \
                        &attention_loops,                 \
                        &data_movement_loops,             \
                        &dropout_loops,                   \
                        &half_loops,                      \
                        &winograd_loops};                 \
  }

#if defined(TRAINGRAPH_X86_LEVELS)
TRAINGRAPH_LEVEL(v2)
TRAINGRAPH_LEVEL(v3)
TRAINGRAPH_LEVEL(v4)
#else
TRAINGRAPH_LEVEL(generic)
#endif
#undef TRAINGRAPH_LEVEL

namespace {

// Best first.
#if defined(TRAINGRAPH_X86_LEVELS)
constexpr const Loops* kLevels[] = {&v4::loops, &v3::loops, &v2::loops};

bool runs_here(std::size_t level) {
  if (level == 0) return __builtin_cpu_supports("x86-64-v4");
  if (level == 1) return __builtin_cpu_supports("x86-64-v3");
  return __builtin_cpu_supports("x86-64-v2");
}
#else
constexpr const Loops* kLevels[] = {&generic::loops};

bool runs_here(std::size_t) { return true; }
#endif

struct Choice {
  const Loops* loops = nullptr;
  std::string refusal;
};

Choice choose() {
  const char* asked = std::getenv("TRAINGRAPH_ISA");
  const std::string wanted = asked == nullptr ? "" : asked;
  std::string names;
  bool allowed = wanted.empty();
  bool known = allowed;
  Choice choice;
  for (std::size_t k = 0; k < std::size(kLevels); ++k) {
    names.insert(0, names.empty() ? kLevels[k]->level : std::string(kLevels[k]->level) + ", ");
    if (wanted == kLevels[k]->level) known = allowed = true;
    if (allowed && choice.loops == nullptr && runs_here(k)) choice.loops = kLevels[k];
  }
  if (!known) {
    return {nullptr,
            "[cpu] expected TRAINGRAPH_ISA to be one of " + names + " but got '" + wanted + "'"};
  }
  if (choice.loops == nullptr) {
    choice.refusal = "[cpu] expected a processor of level x86-64-v2 or better (SSE4.2, POPCNT)";
  }
  return choice;
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

const Loops& loops() {
  if (choice().loops == nullptr) throw DeviceError(choice().refusal);
  return *choice().loops;
}

std::string why_no_level() { return choice().refusal; }

}  // namespace traingraph::cpu
