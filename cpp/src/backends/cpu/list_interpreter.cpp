// Plans the registers and loop calls of a scalar list once, and runs them tile by tile.
#include "backends/cpu/list_interpreter.h"

#include <algorithm>

#include "backends/cpu/half.h"

namespace traingraph::cpu {
namespace {

constexpr std::int64_t kTileFloats = 8192;  // all tiles together: 32 KiB
constexpr std::int64_t kMaxTile = 1024;

}  // namespace

ListInterpreter::ListInterpreter(const ir::ScalarList& list, std::vector<OperandView> views,
                                 std::vector<DataType> types, std::int64_t elements)
    : views_(std::move(views)),
      types_(std::move(types)),
      inputs_(list.inputs),
      elements_(elements) {
  const FunctionLoops* functions = loops().elementwise->functions;
  identity_ = functions[static_cast<std::size_t>(ir::Scalar::identity)].arrays;
  constant_ = functions[static_cast<std::size_t>(ir::Scalar::constant)].arrays;
  plan_registers(list);
  plan_calls(list);
  tile_elements_ = elements;
  if (tiles_ > 0) {
    tile_elements_ = std::max<std::int64_t>(16, std::min(kMaxTile, kTileFloats / tiles_ / 16 * 16));
  }
}

void ListInterpreter::plan_registers(const ir::ScalarList& list) {
  const int count = list.registers();
  registers_.resize(static_cast<std::size_t>(count));
  std::vector<int> last_read(registers_.size(), -1);
  int last_array_read = -1;  // the last instruction that reads an input array
  for (int k = 0; k < static_cast<int>(list.code.size()); ++k) {
    const ir::Instruction& code = list.code[static_cast<std::size_t>(k)];
    for (int operand : {code.x, code.y}) {
      if (operand < 0) continue;
      last_read[static_cast<std::size_t>(operand)] = k;
      if (operand < list.inputs && views_[static_cast<std::size_t>(operand)].dense()) {
        last_array_read = k;
      }
    }
  }
  // Results that are inputs are copied at the end of a tile.
  for (int result : list.results) {
    last_read[static_cast<std::size_t>(result)] = static_cast<int>(list.code.size());
    if (result < list.inputs) last_array_read = static_cast<int>(list.code.size());
  }

  std::vector<int> free_tiles;
  auto take_tile = [&] {
    if (free_tiles.empty()) return tiles_++;
    const int tile = free_tiles.back();
    free_tiles.pop_back();
    return tile;
  };
  for (int i = 0; i < list.inputs; ++i) {
    const OperandView& view = views_[static_cast<std::size_t>(i)];
    if (view.number() && elements_ != 1) {
      at(i) = {Place::number, i};
    } else if (view.dense() && !ir::is_half(type_of_input(i))) {
      at(i) = {Place::input, i};
    } else {
      at(i) = {Place::tile, take_tile()};
      expansions_.push_back({at(i).index, i});
    }
  }
  for (int k = 0; k < static_cast<int>(list.code.size()); ++k) {
    const ir::Instruction& code = list.code[static_cast<std::size_t>(k)];
    const int reg = list.inputs + k;
    auto is_number = [&](int operand) { return operand < 0 || at(operand).place == Place::number; };
    if (is_number(code.x) && is_number(code.y)) {
      at(reg) = {Place::number, reg};
      continue;
    }
    // A result is written where it belongs once nothing reads the inputs it may lie over.
    const auto result = std::find(list.results.begin(), list.results.end(), reg);
    const auto number = static_cast<int>(result - list.results.begin());
    if (result != list.results.end() && k >= last_array_read &&
        !ir::is_half(type_of_result(number))) {
      at(reg) = {Place::result, number};
    } else {
      at(reg) = {Place::tile, take_tile()};
    }
    // Tiles last read here are free for the next instruction, not for this one's result: an
    // instruction with two operands may share one, but its result is taken already.
    for (int operand : {code.x, code.y == code.x ? -1 : code.y}) {
      if (operand >= 0 && at(operand).place == Place::tile &&
          last_read[static_cast<std::size_t>(operand)] == k) {
        free_tiles.push_back(at(operand).index);
      }
    }
  }
}

void ListInterpreter::plan_calls(const ir::ScalarList& list) {
  const FunctionLoops* functions = loops().elementwise->functions;
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const ir::Instruction& code = list.code[k];
    const int reg = list.inputs + static_cast<int>(k);
    const FunctionLoops& forms = functions[static_cast<std::size_t>(code.function)];
    Call call{forms.arrays,
              reg,
              std::max(code.x, 0),
              std::max(code.y, 0),
              {static_cast<float>(code.p), static_cast<float>(code.q)}};
    if (at(reg).place == Place::number) {
      number_calls_.push_back(call);
      continue;
    }
    if (ir::arity(code.function) == 2) {
      if (at(code.x).place == Place::number) call.loop = forms.number_x;
      if (at(code.y).place == Place::number) call.loop = forms.number_y;
    }
    calls_.push_back(call);
  }
  for (std::size_t k = 0; k < list.results.size(); ++k) {
    const Register& source = at(list.results[k]);
    if (source.place != Place::result || source.index != static_cast<int>(k)) {
      copies_.push_back({static_cast<int>(k), list.results[k]});
    }
  }
  // Of several results that are inputs, one may lie over another's source: through tiles.
  const auto from_input = [&](const Copy& copy) { return at(copy.from).place == Place::input; };
  if (std::count_if(copies_.begin(), copies_.end(), from_input) == 0 || list.results.size() < 2) {
    return;
  }
  for (Copy& copy : copies_) {
    if (!from_input(copy)) continue;
    registers_.push_back({Place::tile, tiles_++});
    const int reg = static_cast<int>(registers_.size()) - 1;
    calls_.push_back({identity_, reg, copy.from, 0, {}});
    copy.from = reg;
  }
}

void ListInterpreter::expand(int input, const std::byte* source, std::int64_t begin, std::int64_t n,
                             float* tile) const {
  const OperandView& view = views_[static_cast<std::size_t>(input)];
  const DataType type = type_of_input(input);
  if (!ir::is_half(type))
    return view.expand(reinterpret_cast<const float*>(source), begin, n, tile);
  if (view.dense()) return widen(type, source + 2 * begin, tile, n);
  std::uint16_t halves[kMaxTile];
  view.expand(reinterpret_cast<const std::uint16_t*>(source), begin, n, halves);
  widen(type, reinterpret_cast<const std::byte*>(halves), tile, n);
}

void ListInterpreter::run(const std::byte* const* inputs, std::byte* const* results,
                          std::int64_t begin, std::int64_t end) const {
  alignas(64) float tiles[kTileFloats];
  float numbers[kMaxRegisters];
  float* where[2 * kMaxRegisters];
  const std::size_t count = registers_.size();
  for (std::size_t r = 0; r < count; ++r) {
    const Register& reg = registers_[r];
    const auto index = static_cast<std::size_t>(reg.index);
    switch (reg.place) {
      case Place::input:
        where[r] = reinterpret_cast<float*>(const_cast<std::byte*>(inputs[index])) + begin;
        break;
      case Place::result:
        where[r] = reinterpret_cast<float*>(results[index]) + begin;
        break;
      case Place::tile:
        where[r] = tiles + reg.index * tile_elements_;
        break;
      case Place::number:
        where[r] = numbers + reg.index;
        if (reg.index < inputs_) expand(reg.index, inputs[index], 0, 1, where[r]);
        break;
    }
  }
  for (const Call& call : number_calls_) {
    call.loop(where[call.r], where[call.x], where[call.y], call.immediates, 1);
  }
  for (std::int64_t start = begin; start < end; start += tile_elements_) {
    const std::int64_t n = std::min(tile_elements_, end - start);
    for (const Copy& copy : expansions_) {
      expand(copy.from, inputs[copy.from], start, n, tiles + copy.to * tile_elements_);
    }
    for (const Call& call : calls_) {
      call.loop(where[call.r], where[call.x], where[call.y], call.immediates, n);
    }
    for (const Copy& copy : copies_) store(copy, where[copy.from], results[copy.to], start, n);
    for (std::size_t r = 0; r < count; ++r) {
      if (registers_[r].place == Place::input || registers_[r].place == Place::result) {
        where[r] += n;
      }
    }
  }
}

void ListInterpreter::store(const Copy& copy, const float* from, std::byte* result,
                            std::int64_t start, std::int64_t n) const {
  const bool is_number = at(copy.from).place == Place::number;
  const DataType type = type_of_result(copy.to);
  const Immediates value{is_number ? *from : 0, 0};
  if (!ir::is_half(type)) {
    float* const to = reinterpret_cast<float*>(result) + start;
    return (is_number ? constant_ : identity_)(to, from, from, value, n);
  }
  if (!is_number) return narrow(type, from, result + 2 * start, n);
  auto* const to = reinterpret_cast<std::uint16_t*>(result) + start;
  narrow(type, from, reinterpret_cast<std::byte*>(to), 1);
  std::fill_n(to + 1, n - 1, *to);
}

}  // namespace traingraph::cpu
