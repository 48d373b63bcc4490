#pragma once

#include <array>

#include "backends/cpu/isa/elementwise.h"
#include "ir/precompiled_lists.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

extern const std::array<CompiledLoops, ir::count(ir::PrecompiledLists())> compiled_loops;

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
