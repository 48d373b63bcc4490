// Data sources over arrays in memory, which unarchived kernels have. An archive holds the arrays
// that a data source gives between load() and purge().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/mps/coding.h>
#include <traingraph/mps/instance_normalization.h>

namespace traingraph::mps {

class TRAINGRAPH_API ConvolutionOfArrays final : public CNNConvolutionDataSource {
 public:
  // Bytes of elements of `type`; no biases: none. Raises ShapeError unless there are as many as the
  // descriptor says.
  ConvolutionOfArrays(const CNNConvolutionDescriptor& descriptor, DataType type,
                      std::vector<std::byte> weights, std::vector<std::byte> biases,
                      std::string label = "");
  DataType data_type() const override { return type_; }
  CNNConvolutionDescriptor descriptor() const override { return descriptor_; }
  SourceNumbers weights() const override { return numbers(weights_); }
  SourceNumbers bias_terms() const override { return numbers(biases_); }
  std::string label() const override { return label_; }

 private:
  SourceNumbers numbers(const std::vector<std::byte>& bytes) const;

  CNNConvolutionDescriptor descriptor_;
  DataType type_;
  std::vector<std::byte> weights_, biases_;
  std::string label_;
};

// What an array of the program's gives: elements of float32, one after another.
struct TRAINGRAPH_API Float32Elements {
  std::vector<std::byte> bytes;
};

// Numbers per channel; empty: none.
struct TRAINGRAPH_API ChannelArrays {
  std::int64_t channels = 0;
  std::int64_t groups = 0;  // of a group normalization
  std::vector<float> gamma, beta, mean, variance;
  float epsilon = 0;
  std::string label;

  // Raises ShapeError unless each array that is there has a number per channel.
  void check() const;
};

// What all normalizations have.
template <class Base>
class NormalizationOfArrays : public Base {
 public:
  explicit NormalizationOfArrays(ChannelArrays arrays) : arrays_(std::move(arrays)) {
    arrays_.check();
  }
  std::int64_t number_of_feature_channels() const override { return arrays_.channels; }
  SourceNumbers gamma() const override { return arrays_.gamma; }
  SourceNumbers beta() const override { return arrays_.beta; }
  float epsilon() const override { return arrays_.epsilon; }
  std::string label() const override { return arrays_.label; }
  const ChannelArrays& arrays() const { return arrays_; }

 protected:
  ChannelArrays arrays_;
};

// Of an instance normalization too, which asks for no groups.
class TRAINGRAPH_API GroupNormalizationOfArrays final
    : public NormalizationOfArrays<CNNGroupNormalizationDataSource> {
 public:
  using NormalizationOfArrays::NormalizationOfArrays;
  std::int64_t number_of_groups() const override { return arrays_.groups; }
};

class TRAINGRAPH_API BatchNormalizationOfArrays final
    : public NormalizationOfArrays<CNNBatchNormalizationDataSource> {
 public:
  using NormalizationOfArrays::NormalizationOfArrays;
  SourceNumbers mean() const override { return arrays_.mean; }
  SourceNumbers variance() const override { return arrays_.variance; }
};

// Each raises InvalidArgument where the source refuses to load, ShapeError or DataTypeError for
// numbers that are not what the source says.
TRAINGRAPH_API CodedValue coded(CNNConvolutionDataSource& source);
TRAINGRAPH_API CodedValue coded(CNNBatchNormalizationDataSource& source);
TRAINGRAPH_API CodedValue coded(CNNInstanceNormalizationDataSource& source);
TRAINGRAPH_API CodedValue coded(CNNGroupNormalizationDataSource& source);
// Raise InvalidArgument for what is no such data source.
TRAINGRAPH_API void decode(const CodedValue& value, CNNConvolutionDataSourcePtr& to);
TRAINGRAPH_API void decode(const CodedValue& value, CNNBatchNormalizationDataSourcePtr& to);
TRAINGRAPH_API void decode(const CodedValue& value, CNNInstanceNormalizationDataSourcePtr& to);
TRAINGRAPH_API void decode(const CodedValue& value, CNNGroupNormalizationDataSourcePtr& to);

}  // namespace traingraph::mps
