#pragma once

#include "ir/extents.h"

namespace traingraph {

// How many sources a result of these weights (O, I, …) is made of, and how many results of a
// source.
struct Fans {
  std::int64_t in = 1;
  std::int64_t out = 1;
};

inline Fans fans_of(const Shape& shape) {
  std::int64_t receptive = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) receptive = ir::product(receptive, shape[i]);
  return {ir::product(shape.size() > 1 ? shape[1] : 1, receptive),
          ir::product(shape[0], receptive)};
}

}  // namespace traingraph
