#pragma once

#include "backends/cpu/isa/pooling.h"

// The same for plain planes (lanes == 1): vectors hold neighbouring results of a row.
namespace traingraph::cpu::TRAINGRAPH_ISA {

void maximum_rows(const PoolingPlane& plane, const float* x, float* y, void* index,
                  std::int64_t begin, std::int64_t end);
void sum_rows(const PoolingPlane& plane, bool l2_norm, const float* x, float* y, std::int64_t begin,
              std::int64_t end);
void maximum_gradient_rows(const PoolingPlane& plane, const float* dy, const void* index, float* dx,
                           std::int64_t begin, std::int64_t end);
void average_gradient_rows(const PoolingPlane& plane, const float* dy, float* dx,
                           std::int64_t begin, std::int64_t end);

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
