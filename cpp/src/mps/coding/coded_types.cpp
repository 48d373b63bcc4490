// Table from the C++ types of properties to their archive functions: encode, decode and, for a data
// source, copy to a device.
#include "mps/coding/coded_types.h"

#include <typeindex>
#include <unordered_map>

#include <traingraph/errors.h>
#include <traingraph/mps/optimizer.h>
#include <traingraph/mps/stored_sources.h>

#include "mps/coding/coded_fields.h"
#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using Table = std::unordered_map<std::type_index, CodedType>;

template <class T>
void add_value(Table& table) {
  table.emplace(typeid(T), CodedType{[](const std::any& value) -> CodedValue {
                                       return coded(std::any_cast<const T&>(value));
                                     },
                                     [](const CodedValue& value) -> std::any {
                                       T made{};
                                       decode(value, made);
                                       return made;
                                     },
                                     nullptr});
}

template <class Source>
void add_source(Table& table) {
  using SourcePtr = std::shared_ptr<Source>;
  table.emplace(
      typeid(SourcePtr),
      CodedType{[](const std::any& value) -> CodedValue {
                  return coded(*std::any_cast<const SourcePtr&>(value));
                },
                [](const CodedValue& value) -> std::any {
                  SourcePtr made;
                  decode(value, made);
                  return made;
                },
                [](const std::any& source, const Device& device) -> std::any {
                  const auto other = std::any_cast<const SourcePtr&>(source)->copy(device);
                  if (other == nullptr) return source;
                  auto same_kind = std::dynamic_pointer_cast<Source>(other);
                  if (same_kind != nullptr) return same_kind;
                  throw InvalidArgument(
                      "[MPSKernel] expected a copy of a data source to be one of its kind");
                }});
}

Table make_table() {
  Table table;
  add_value<bool>(table);
  add_value<std::int64_t>(table);
  add_value<float>(table);
  add_value<double>(table);
  add_value<std::string>(table);
  add_value<std::vector<float>>(table);
  add_value<Offset>(table);
  add_value<Coordinate>(table);
  add_value<MaskStride>(table);
  add_value<Extent>(table);
  add_value<Region>(table);
  add_value<EdgeMode>(table);
  add_value<PaddingPolicy>(table);
  add_value<NNComparisonType>(table);
  add_value<CNNConvolutionGradientOption>(table);
  add_value<NeuronDescriptor>(table);
  add_value<CNNLossDescriptor>(table);
  add_value<NNOptimizerDescriptor>(table);
  add_value<CNNConvolutionDescriptor>(table);
  add_value<CNNDepthWiseConvolutionDescriptor>(table);
  add_value<CNNSubPixelConvolutionDescriptor>(table);
  add_source<CNNConvolutionDataSource>(table);
  add_source<CNNBatchNormalizationDataSource>(table);
  add_source<CNNInstanceNormalizationDataSource>(table);
  add_source<CNNGroupNormalizationDataSource>(table);
  return table;
}

const Table& table() {
  static const Table all = make_table();
  return all;
}

}  // namespace

bool is_coded(const std::type_info& type) { return table().contains(type); }

const CodedType& coded_type(const ValueType& type) { return table().at(*type.type); }

CodedValue coded(const ValueType& type, const std::any& value) {
  return value.has_value() ? coded_type(type).code(value) : nullptr;
}

std::any decoded(const ValueType& type, const std::string& name, const CodedValue& value) {
  if (type.optional && value.is_nothing()) return {};
  try {
    return coded_type(type).decode(value);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("of '" + name + "': " + error.what());
  }
}

}  // namespace traingraph::mps
