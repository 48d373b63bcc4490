#pragma once

#include <string>

#include <traingraph/types.h>

// What to do about an array of another shape than its tensor's, behind the batch; "" where nobody
// can tell.
namespace traingraph {

// One row where other arrays have more.
std::string advice_on_rows(std::int64_t rows);
// Images whose channels are on the last axis, or that were declared so.
std::string advice_on_images(const Shape& given, const Shape& expected);
// Labels, `type` the tensor's: one-hot ones in place of classes, and steps in place of classes.
std::string advice_on_labels(const Shape& given, const Shape& expected, DataType type);

}  // namespace traingraph
