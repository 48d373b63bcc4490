// LSTMs of float32. Sequences go in groups, each with all its steps: a step multiplies the group's
// hidden states with packed weights, panel by panel, and moves their cells. Groups are cut by
// shape, need nothing of each other and keep to one thread each; one alone shares its panels among
// threads.
#include <algorithm>
#include <limits>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa/lstm.h"
#include "backends/cpu/isa/products/matrix.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/lstm_functions.h"
#include "backends/cpu/parallel.h"
#include "runtime/lstm_steps.h"

namespace traingraph::cpu {
namespace {

using ir::LstmAttributes;
using ir::LstmOperands;

// What both kernels share: groups of sequences, packed weights, and a scratch for each group.
class LstmKernel : public Kernel {
 public:
  LstmKernel(const ir::Graph& graph, const ir::Node& node, const LstmOperands& operands,
             ir::ValueId gates)
      : attributes_(std::get<LstmAttributes>(node.attributes)),
        operands_(operands),
        steps_(graph.type(gates).shape, attributes_),
        functions_(attributes_),
        node_(node),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    for (ir::ValueId id : node.outputs) elements_.push_back(graph.type(id).elements());
    // Few sequences still are work for several threads.
    group_ = steps_.sequences > 16 ? 16 : 8;
    groups_ = (steps_.sequences + group_ - 1) / group_;
    const double multiplications = static_cast<double>(steps_.sequences * steps_.steps) *
                                   static_cast<double>(4 * steps_.hidden * steps_.hidden);
    threads_ = threads_for(multiplications / 30);
    // A group alone shares each of its steps, where that is work enough.
    const double steps = static_cast<double>(std::max<std::int64_t>(1, steps_.steps));
    if (groups_ == 1) step_threads_ = threads_for(multiplications / 30 / steps);
  }

  std::size_t workspace_bytes() const override {
    return sizeof(float) * static_cast<std::size_t>(packed_floats() + groups_ * group_floats());
  }

 protected:
  virtual std::int64_t packed_floats() const = 0;
  virtual std::int64_t group_floats() const = 0;

  template <class T>
  const T* in(Pointers pointers, int operand) const {
    return operand < 0 ? nullptr
                       : reinterpret_cast<const T*>(
                             pointers[node_.inputs[static_cast<std::size_t>(operand)]]);
  }
  float* out(Pointers pointers, std::size_t k) const {
    return reinterpret_cast<float*>(pointers[node_.outputs[k]]);
  }
  float* packed(Pointers pointers) const { return reinterpret_cast<float*>(pointers[workspace_]); }
  float* scratch(Pointers pointers, std::int64_t group) const {
    return packed(pointers) + packed_floats() + group * group_floats();
  }
  // Every result, where lengths make no sense.
  bool refused(Pointers pointers) const {
    if (steps_.allows(in<std::int32_t>(pointers, operands_.lengths))) return false;
    for (std::size_t k = 0; k < elements_.size(); ++k) {
      std::fill_n(out(pointers, k), elements_[k], std::numeric_limits<float>::quiet_NaN());
    }
    return true;
  }
  // f(group, its first sequence, how many)
  template <class F>
  void each_group(const F& f) const {
    parallel_for(groups_, threads_, [&](std::int64_t group) {
      const std::int64_t first = group * group_;
      f(group, first, std::min(group_, steps_.sequences - first));
    });
  }
  // However many sequences of a group reach a step.
  std::int64_t order_rows() const { return std::min(group_, steps_.sequences); }
  // Rows of a state, from another one or zeros.
  void begin_state(const float* from, float* to, std::int64_t first, std::int64_t rows) const {
    const std::int64_t hidden = steps_.hidden;
    if (from == nullptr) {
      std::fill_n(to, rows * hidden, 0.0f);
    } else {
      std::copy_n(from + first * hidden, rows * hidden, to);
    }
  }

  LstmAttributes attributes_;
  LstmOperands operands_;
  LstmSteps steps_;
  LstmFunctions functions_;
  ir::Node node_;
  std::size_t workspace_;
  std::vector<std::int64_t> elements_;  // of the results
  std::int64_t group_ = 1, groups_ = 1;
  int threads_ = 1, step_threads_ = 1;
};

class Lstm final : public LstmKernel {
 public:
  Lstm(const ir::Graph& graph, const ir::Node& node)
      : LstmKernel(graph, node, LstmOperands::of_forward(std::get<LstmAttributes>(node.attributes)),
                   node.inputs[0]),
        units_(loops().lstm->units),
        panels_((steps_.hidden + units_ - 1) / units_) {}

  void run(Pointers pointers) override {
    if (refused(pointers)) return;
    const auto* const weights = in<float>(pointers, operands_.weights);
    parallel_for(panels_, threads_, [&](std::int64_t panel) {
      loops().lstm->pack(weights, steps_.hidden, panel * units_,
                         packed(pointers) + panel * panel_floats());
    });
    each_group([&](std::int64_t group, std::int64_t first, std::int64_t count) {
      run_group(pointers, group, first, count);
    });
  }

 protected:
  std::int64_t panel_floats() const { return steps_.hidden * 4 * units_; }
  std::int64_t packed_floats() const override { return panels_ * panel_floats(); }
  // Two hidden states, and what panels need that are at work at one time.
  std::int64_t group_floats() const override {
    return 2 * group_ * steps_.hidden + (step_threads_ > 1 ? panels_ : 1) * sums_floats();
  }

 private:
  void run_group(Pointers pointers, std::int64_t group, std::int64_t first,
                 std::int64_t count) const {
    const std::int64_t hidden = steps_.hidden;
    const auto* const lengths = in<std::int32_t>(pointers, operands_.lengths);
    float* now = scratch(pointers, group);
    float* next = now + group_ * hidden;
    float* const cell = out(pointers, 2) + first * hidden;
    begin_state(in<float>(pointers, operands_.hidden), now, first, count);
    begin_state(in<float>(pointers, operands_.cell), cell, first, count);
    for (std::int64_t k = 0; k < steps_.steps; ++k) {
      const std::int64_t step = steps_.step(k);
      const std::int64_t reach = steps_.reaching(lengths, step, first, count);
      keep(pointers, first, count, reach, step, now, cell);
      if (reach < count) {
        std::copy_n(now + reach * hidden, (count - reach) * hidden, next + reach * hidden);
      }
      if (reach > 0) {
        move(pointers, group, steps_.row(first, step), reach, now, next, cell);
      }
      std::swap(now, next);
    }
    std::copy_n(now, count * hidden, out(pointers, 1) + first * hidden);
  }

  // Sums of a panel, and what functions need.
  std::int64_t sums_floats() const {
    return group_ * 4 * units_ + (functions_.usual() ? 0 : LstmFunctions::kRows * units_);
  }

  // The states as a step finds them; zeros for sequences that do not reach it.
  void keep(Pointers pointers, std::int64_t first, std::int64_t count, std::int64_t reach,
            std::int64_t step, const float* hidden_state, const float* cell) const {
    const std::int64_t hidden = steps_.hidden;
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t row = steps_.row(first + n, step);
      if (n >= reach) {
        for (std::size_t k = 0; k < elements_.size(); ++k) {
          if (k == 1 || k == 2) continue;
          const std::int64_t width = k == 3 ? 4 * hidden : hidden;
          std::fill_n(out(pointers, k) + row * width, width, 0.0f);
        }
      } else if (attributes_.keeps) {
        std::copy_n(hidden_state + n * hidden, hidden, out(pointers, 4) + row * hidden);
        std::copy_n(cell + n * hidden, hidden, out(pointers, 5) + row * hidden);
      }
    }
  }

  void move(Pointers pointers, std::int64_t group, std::int64_t row, std::int64_t rows,
            const float* now, float* next, float* cell) const {
    const std::int64_t hidden = steps_.hidden, width = 2 * units_;
    float* const behind_states = scratch(pointers, group) + 2 * group_ * hidden;
    const MatrixProduct product{rows,  width, hidden, hidden, 1,
                                false, 1.0f,  false,  false,  order_rows()};
    const auto* const peepholes = in<float>(pointers, operands_.peepholes);
    parallel_for(panels_, step_threads_, [&](std::int64_t panel) {
      const std::int64_t unit = panel * units_;
      float* const sums = behind_states + (step_threads_ > 1 ? panel : 0) * sums_floats();
      const float* const weights = packed(pointers) + panel * panel_floats();
      for (std::int64_t pair = 0; pair < 2; ++pair) {
        loops().matrix->panel[0](product, now, weights + pair * hidden * width, nullptr,
                                 sums + pair * group_ * width, 0, width, nullptr);
      }
      LstmCells cells{};
      cells.rows = rows;
      cells.units = std::min(units_, hidden - unit);
      cells.hidden = hidden;
      cells.sums = sums;
      cells.units_apart = units_;
      cells.pairs_apart = group_ * width;
      cells.inputs = in<float>(pointers, 0) + row * 4 * hidden + unit;
      cells.inputs_row = steps_.row_distance() * 4 * hidden;
      cells.peepholes = peepholes != nullptr ? peepholes + unit : nullptr;
      cells.cell = cell + unit;
      cells.hidden_state = next + unit;
      cells.state_row = hidden;
      cells.result = out(pointers, 0) + row * hidden + unit;
      cells.result_row = steps_.row_distance() * hidden;
      if (attributes_.keeps) cells.kept_gates = out(pointers, 3) + row * 4 * hidden + unit;
      if (attributes_.keeps && peepholes != nullptr) {
        cells.kept_cells = out(pointers, 6) + row * hidden + unit;
      }
      if (functions_.usual()) {
        loops().lstm->cells(cells);
      } else {
        functions_.move(cells, sums + 2 * group_ * width);
      }
    });
  }

  std::int64_t units_, panels_;
};

class LstmGradient final : public LstmKernel {
 public:
  LstmGradient(const ir::Graph& graph, const ir::Node& node)
      : LstmKernel(graph, node,
                   LstmOperands::of_gradient(std::get<LstmAttributes>(node.attributes)),
                   node.outputs[0]),
        width_(2 * loops().lstm->units),
        panels_((steps_.hidden + width_ - 1) / width_) {}

  void run(Pointers pointers) override {
    if (refused(pointers)) return;
    parallel_for(panels_, threads_, [&](std::int64_t panel) { pack(pointers, panel); });
    each_group([&](std::int64_t group, std::int64_t first, std::int64_t count) {
      run_group(pointers, group, first, count);
    });
  }

 protected:
  std::int64_t panel_floats() const { return 4 * steps_.hidden * width_; }
  std::int64_t packed_floats() const override { return panels_ * panel_floats(); }
  // dh, panel by panel, and what functions need.
  std::int64_t group_floats() const override {
    const std::int64_t slots = step_threads_ > 1 ? panels_ : 1;
    return panels_ * group_ * width_ +
           (functions_.usual() ? 0 : slots * LstmFunctions::kRows * width_);
  }

 private:
  std::int64_t columns(std::int64_t panel) const {
    return std::min(width_, steps_.hidden - panel * width_);
  }

  // Columns of U: (4H, width), zeros where there are none.
  void pack(Pointers pointers, std::int64_t panel) const {
    const std::int64_t hidden = steps_.hidden;
    const float* from = in<float>(pointers, operands_.weights) + panel * width_;
    float* to = packed(pointers) + panel * panel_floats();
    for (std::int64_t k = 0; k < 4 * hidden; ++k, from += hidden, to += width_) {
      std::copy_n(from, columns(panel), to);
      std::fill_n(to + columns(panel), width_ - columns(panel), 0.0f);
    }
  }

  float* panel_of(float* states, std::int64_t panel) const {
    return states + panel * group_ * width_;
  }

  void run_group(Pointers pointers, std::int64_t group, std::int64_t first,
                 std::int64_t count) const {
    const std::int64_t hidden = steps_.hidden;
    const auto* const lengths = in<std::int32_t>(pointers, operands_.lengths);
    float* const states = scratch(pointers, group);
    float* const hidden_gradient = out(pointers, 1) + first * hidden;
    float* const cell_gradient = out(pointers, 2) + first * hidden;
    begin_state(in<float>(pointers, operands_.hidden_gradient), hidden_gradient, first, count);
    begin_state(in<float>(pointers, operands_.cell_gradient), cell_gradient, first, count);
    each_row_of_panels(count, [&](std::int64_t panel, std::int64_t row) {
      std::copy_n(hidden_gradient + row * hidden + panel * width_, columns(panel),
                  panel_of(states, panel) + row * width_);
    });
    for (std::int64_t k = steps_.steps; k-- > 0;) {
      const std::int64_t step = steps_.step(k);
      const std::int64_t reach = steps_.reaching(lengths, step, first, count);
      for (std::int64_t n = reach; n < count; ++n) {
        std::fill_n(out(pointers, 0) + steps_.row(first + n, step) * 4 * hidden, 4 * hidden, 0.0f);
      }
      if (reach > 0) move_back(pointers, steps_.row(first, step), reach, states, cell_gradient);
    }
    each_row_of_panels(count, [&](std::int64_t panel, std::int64_t row) {
      std::copy_n(panel_of(states, panel) + row * width_, columns(panel),
                  hidden_gradient + row * hidden + panel * width_);
    });
  }

  template <class F>
  void each_row_of_panels(std::int64_t rows, const F& f) const {
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      for (std::int64_t row = 0; row < rows; ++row) f(panel, row);
    }
  }

  void move_back(Pointers pointers, std::int64_t row, std::int64_t rows, float* states,
                 float* cell_gradient) const {
    const std::int64_t hidden = steps_.hidden;
    const auto* const peepholes = in<float>(pointers, operands_.peepholes);
    const auto* const result_gradient = in<float>(pointers, operands_.all_gradient);
    float* const gates_gradient = out(pointers, 0) + row * 4 * hidden;
    const std::int64_t gates_row = steps_.row_distance() * 4 * hidden;
    parallel_for(panels_, step_threads_, [&](std::int64_t panel) {
      const std::int64_t unit = panel * width_;
      LstmCellsGradient cells{};
      cells.rows = rows;
      cells.units = columns(panel);
      cells.hidden = hidden;
      cells.hidden_gradient = panel_of(states, panel);
      cells.hidden_gradient_row = width_;
      cells.result_gradient =
          result_gradient != nullptr ? result_gradient + row * hidden + unit : nullptr;
      cells.gates = in<float>(pointers, operands_.gates) + row * 4 * hidden + unit;
      cells.found_cells = in<float>(pointers, operands_.found_cells) + row * hidden + unit;
      cells.result_row = steps_.row_distance() * hidden;
      cells.gates_row = gates_row;
      cells.peepholes = peepholes != nullptr ? peepholes + unit : nullptr;
      cells.cell_gradient = cell_gradient + unit;
      cells.state_row = hidden;
      cells.gates_gradient = gates_gradient + unit;
      if (functions_.usual()) {
        loops().lstm->cells_gradient(cells);
      } else {
        const std::int64_t slot = step_threads_ > 1 ? panel : 0;
        functions_.move_back(cells,
                             panel_of(states, panels_) + slot * LstmFunctions::kRows * width_);
      }
    });
    const MatrixProduct product{rows,  width_, 4 * hidden, gates_row, 1,
                                false, 1.0f,   false,      false,     order_rows()};
    parallel_for(panels_, step_threads_, [&](std::int64_t panel) {
      loops().matrix->panel[0](product, gates_gradient, packed(pointers) + panel * panel_floats(),
                               nullptr, panel_of(states, panel), 0, width_, nullptr);
    });
  }

  std::int64_t width_, panels_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const DataType type = graph.type(id).data_type;
      if (type != DataType::kFloat32 && type != DataType::kInt32) {
        return Support::no("hand-written loops of LSTMs compute in float32");
      }
    }
  }
  return {};
}

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<K>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& lstm_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::lstm, supports, make<Lstm>, nullptr, nullptr},
      KernelEntry{ir::Op::lstm_gradient, supports, make<LstmGradient>, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
