// Interpreter of scalar lists without a compiled loop: one vectorized loop per instruction,
// intermediate registers in tiles that stay in the nearest cache.
#pragma once

#include <vector>

#include "backends/cpu/isa/elementwise.h"
#include "backends/cpu/operand_view.h"
#include "ir/scalar.h"

namespace traingraph::cpu {

// Registers, tiles and loops are chosen when it is made.
class ListInterpreter {
 public:
  // `views` has one entry per input; `elements` counts those of each result, with padding. `types`
  // are those of inputs and then results: float32 or 16 bits, which are widened and rounded by
  // tile.
  ListInterpreter(const ir::ScalarList& list, std::vector<OperandView> views,
                  std::vector<DataType> types, std::int64_t elements);

  // Result elements [begin, end). A result may lie over an input, element upon element.
  void run(const std::byte* const* inputs, std::byte* const* results, std::int64_t begin,
           std::int64_t end) const;

  static constexpr int kMaxRegisters = 256;

 private:
  // Where a register's elements are.
  enum class Place : std::uint8_t { input, number, tile, result };
  struct Register {
    Place place = Place::tile;
    int index = 0;  // which input, number, tile or result
  };
  struct Call {
    FunctionLoop loop;
    int r, x, y;  // registers
    Immediates immediates;
  };
  // What fills a result or a tile that no instruction wrote.
  struct Copy {
    int to;    // result or tile
    int from;  // register or input
  };

  void plan_registers(const ir::ScalarList& list);
  void plan_calls(const ir::ScalarList& list);
  DataType type_of_input(int i) const { return types_[static_cast<std::size_t>(i)]; }
  DataType type_of_result(int k) const { return types_[static_cast<std::size_t>(inputs_ + k)]; }
  // Input elements [begin, begin + n) of results, in float32.
  void expand(int input, const std::byte* source, std::int64_t begin, std::int64_t n,
              float* tile) const;
  // Elements [start, start + n) of a result that no instruction wrote, from where they are.
  void store(const Copy& copy, const float* from, std::byte* result, std::int64_t start,
             std::int64_t n) const;
  Register& at(int reg) { return registers_[static_cast<std::size_t>(reg)]; }
  const Register& at(int reg) const { return registers_[static_cast<std::size_t>(reg)]; }

  std::vector<OperandView> views_;
  std::vector<DataType> types_;
  std::vector<Register> registers_;
  std::vector<Call> number_calls_;  // once per run
  std::vector<Call> calls_;         // once per tile
  std::vector<Copy> expansions_;    // broadcast or narrow input → tile
  std::vector<Copy> copies_;        // register → result
  FunctionLoop identity_;
  FunctionLoop constant_;
  int inputs_ = 0;
  int tiles_ = 0;
  std::int64_t elements_ = 0;
  std::int64_t tile_elements_ = 0;
};

}  // namespace traingraph::cpu
