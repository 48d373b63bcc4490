#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backends/cpu/isa/elementwise.h"
#include "backends/cpu/isa/lstm.h"
#include "ir/attributes.h"

namespace traingraph::cpu {

// Any functions of gates and cells, list by list over the units of a row.
class LstmFunctions {
 public:
  explicit LstmFunctions(const ir::LstmAttributes& a);

  bool usual() const { return values_.empty(); }
  // Rows of units that one step's work needs.
  static constexpr std::int64_t kRows = 24 + ir::LstmAttributes::kMostRegisters;

  // `scratch` has kRows * cells.units floats.
  void move(const LstmCells& cells, float* scratch) const;
  void move_back(const LstmCellsGradient& cells, float* scratch) const;

 private:
  class List {
   public:
    explicit List(const ir::ScalarList& list);
    // `scratch` takes what every instruction gives.
    void run(std::array<const float*, 3> inputs, float* result, std::int64_t n,
             float* scratch) const;

   private:
    ir::ScalarList list_;
    std::vector<FunctionLoop> loops_;
  };

  std::vector<List> values_, gradients_;
};

}  // namespace traingraph::cpu
