#pragma once

#include <any>

#include <traingraph/class_description.h>
#include <traingraph/mps/coding.h>

// How what kernels consist of is written into archives, by its type.
namespace traingraph::mps {

struct CodedType {
  CodedValue (*code)(const std::any& value);
  std::any (*decode)(const CodedValue& value);
  // Of a data source, for a kernel on this device; null for values.
  std::any (*copy)(const std::any& source, const Device& device);
};

const CodedType& coded_type(const ValueType& type);

}  // namespace traingraph::mps
