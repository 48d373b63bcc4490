// The scalar functions by name, and lists of them: what the op `elementwise` and fused epilogues
// hold. The table is scalar.def; scalar_expression.h writes lists, scalar_gradient.h and
// scalar_simplify.h make others of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace traingraph::ir {

enum class Scalar : std::uint8_t {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) name,
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
};

const char* name(Scalar function);
int arity(Scalar function);

// Applies a function to registers. Registers 0 … inputs-1 hold the inputs; instruction k writes
// register inputs + k.
struct Instruction {
  Scalar function = Scalar::identity;
  int x = -1;
  int y = -1;
  double p = 0;
  double q = 0;
  bool operator==(const Instruction&) const = default;
};

struct ScalarList {
  int inputs = 0;
  std::vector<Instruction> code;
  std::vector<int> results;  // registers that become outputs

  constexpr int registers() const { return inputs + static_cast<int>(code.size()); }
  bool empty() const { return code.empty(); }
  bool operator==(const ScalarList&) const = default;

  // Adds an instruction and returns its register.
  constexpr int add(Scalar function, int x = -1, int y = -1, double p = 0, double q = 0) {
    code.push_back({function, x, y, p, q});
    return registers() - 1;
  }
};

// "t2 = relu(t1); …" with inputs i0, i1, …
std::string to_string(const ScalarList& list);

// The consumer's input `input` is the producer's result `result`: one list with the producer's
// inputs first, then the consumer's others. Results: the consumer's, then those of the producer
// listed in `keep`.
ScalarList joined(const ScalarList& producer, int result, const ScalarList& consumer, int input,
                  const std::vector<int>& keep);

}  // namespace traingraph::ir
