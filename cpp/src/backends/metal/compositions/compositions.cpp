#include "backends/metal/compositions/compositions.h"

namespace traingraph::metal {

std::span<const CompositionRule> compositions() {
  using ir::Op;
  static constexpr CompositionRule kRules[] = {
      {Op::attention, compose_attention},
      {Op::attention_gradient, compose_attention_gradient},
      {Op::compare, compose_compare},
      {Op::embedding, compose_embedding},
      {Op::embedding_gradient, compose_embedding_gradient},
      {Op::extremum, compose_extremum},
      {Op::limit_rows, compose_limit_rows},
      {Op::lstm, compose_lstm},
      {Op::lstm_gradient, compose_lstm_gradient},
      {Op::one_hot, compose_one_hot},
      {Op::row_norm, compose_row_norm},
      {Op::row_norm_gradient, compose_row_norm_gradient},
  };
  return kRules;
}

}  // namespace traingraph::metal
