#pragma once

#include "ops/emit.h"

// What lies around a tensor along one axis: shared by ML Compute's padding and MPS's.
namespace traingraph {

enum class Margin {
  constant,
  clamped,    // the element at the edge
  mirrored,   // without the edge itself
  symmetric,  // with it
};

// How many elements of an axis of this extent can be mirrored on each side.
std::int64_t most_mirrored(Margin margin, std::int64_t extent);

// x (…, D, …) → (…, before + D + after, …).
ir::ValueId with_margins(ir::Graph& graph, ir::ValueId x, int axis, std::int64_t before,
                         std::int64_t after, Margin margin, double number);

// Elements of one axis by their places, which are known and become part of the program: at most
// kMostPlaces.
inline constexpr std::int64_t kMostPlaces = 1 << 24;
ir::ValueId picked(ir::Graph& graph, ir::ValueId x, int axis, std::vector<double> places);

}  // namespace traingraph
