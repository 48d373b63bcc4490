#pragma once

#include "backends/cpu/isa/elementwise.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

extern const CompiledLoops compiled_loops[];

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
