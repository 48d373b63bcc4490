#pragma once

#include <cstddef>

#include <traingraph/types.h>

// One number in every element of dense memory.
namespace traingraph {

// Errors: Unsupported for a type that cannot be filled.
void fill(void* memory, std::size_t bytes, DataType type, double number);

}  // namespace traingraph
