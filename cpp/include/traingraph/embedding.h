#pragma once

#include <optional>

#include <traingraph/layer.h>

namespace traingraph {

// A table of embedding_count rows of embedding_dimension numbers.
struct TRAINGRAPH_API EmbeddingDescriptor {
  static const ClassDescription& class_description();
  std::int64_t embedding_count = 1;
  std::int64_t embedding_dimension = 1;
  std::optional<std::int64_t> padding_index;  // the row that is zero and has no gradient
  std::optional<float> maximum_norm;          // of rows that are looked up
  float p_norm = 2;                           // (Σ |x|^p)^(1/p); infinity: the largest
  bool scales_gradient_by_frequency = false;

  // Raises InvalidArgument for a number outside its range.
  void check() const;
};

// Indices (…) → rows (…, embedding_dimension) of the table.
class TRAINGRAPH_API Embedding final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Weights of any shape with as many elements as the table, row by row; their padding row becomes
  // zero here.
  Embedding(EmbeddingDescriptor descriptor, TensorPtr weights);

  const EmbeddingDescriptor& descriptor() const { return descriptor_; }
  TensorParameter& weights() { return weights_; }
  std::vector<TensorParameter*> parameters() override { return {&weights_}; }
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override {
    return {{"weights", weights_.tensor}};
  }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  EmbeddingDescriptor descriptor_;
  TensorParameter weights_;
};

}  // namespace traingraph
