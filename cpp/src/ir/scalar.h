// The scalar functions by name, and lists of them: what the op `elementwise` and fused epilogues
// hold. The table is scalar.def.
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

  int registers() const { return inputs + static_cast<int>(code.size()); }
  bool empty() const { return code.empty(); }
  bool operator==(const ScalarList&) const = default;

  // Adds an instruction and returns its register.
  int add(Scalar function, int x = -1, int y = -1, double p = 0, double q = 0);
};

// "t2 = relu(t1); …" with inputs i0, i1, …
std::string to_string(const ScalarList& list);

// Removes instructions that no result needs and inputs that nothing reads. `kept` receives the old
// input numbers in order.
ScalarList without_dead_code(const ScalarList& list, std::vector<int>& kept);

// The same list with constants folded, identities skipped and equal results computed once.
// Inputs and results keep their numbers.
ScalarList simplified(const ScalarList& list);

// The consumer's input `input` is the producer's result `result`: one list with the producer's
// inputs first, then the consumer's others. Results: the consumer's, then those of the producer
// listed in `keep`.
ScalarList joined(const ScalarList& producer, int result, const ScalarList& consumer, int input,
                  const std::vector<int>& keep);

// Reverse differentiation. The returned list takes the forward inputs, then the forward results,
// then one gradient per result, and gives one gradient per wanted input. It reads results where
// the table's derivative can. Inputs nothing reads are kept; remove them with without_dead_code.
ScalarList differentiated(const ScalarList& list, const std::vector<bool>& wanted);

}  // namespace traingraph::ir
