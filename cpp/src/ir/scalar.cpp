// Joins two scalar lists, and prints them.
#include "ir/scalar.h"

#include "ir/number_text.h"

namespace traingraph::ir {
namespace {

struct Row {
  const char* name;
  int arity;
};

constexpr Row kRows[] = {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) {#name, arity},
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
};

// Renumbers the operands of `code` through `map` and appends it to `list`.
void append(ScalarList& list, const std::vector<Instruction>& code, std::vector<int>& map) {
  for (Instruction instruction : code) {
    if (instruction.x >= 0) instruction.x = map[static_cast<std::size_t>(instruction.x)];
    if (instruction.y >= 0) instruction.y = map[static_cast<std::size_t>(instruction.y)];
    list.code.push_back(instruction);
    map.push_back(list.registers() - 1);
  }
}

}  // namespace

const char* name(Scalar function) { return kRows[static_cast<std::size_t>(function)].name; }
int arity(Scalar function) { return kRows[static_cast<std::size_t>(function)].arity; }

std::string to_string(const ScalarList& list) {
  PlainStream text;
  auto reg = [&](int r) {
    return (r < list.inputs ? "i" + std::to_string(r) : "t" + std::to_string(r - list.inputs));
  };
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const Instruction& instruction = list.code[k];
    text << (k > 0 ? "; " : "") << "t" << k << " = " << name(instruction.function) << "(";
    const int operands = arity(instruction.function);
    if (operands > 0) text << reg(instruction.x);
    if (operands > 1) text << ", " << reg(instruction.y);
    if (instruction.p != 0 || instruction.q != 0) {
      text << (operands > 0 ? "; " : "") << instruction.p;
      if (instruction.q != 0) text << ", " << instruction.q;
    }
    text << ")";
  }
  text << " -> ";
  for (std::size_t k = 0; k < list.results.size(); ++k) {
    text << (k > 0 ? ", " : "") << reg(list.results[k]);
  }
  return text.str();
}

ScalarList joined(const ScalarList& producer, int result, const ScalarList& consumer, int input,
                  const std::vector<int>& keep) {
  ScalarList list;
  list.inputs = producer.inputs + consumer.inputs - 1;
  std::vector<int> producer_map;
  for (int i = 0; i < producer.inputs; ++i) producer_map.push_back(i);
  append(list, producer.code, producer_map);
  std::vector<int> consumer_map;
  int next = producer.inputs;
  for (int i = 0; i < consumer.inputs; ++i) {
    consumer_map.push_back(i == input ? producer_map[static_cast<std::size_t>(
                                            producer.results[static_cast<std::size_t>(result)])]
                                      : next++);
  }
  append(list, consumer.code, consumer_map);
  for (int r : consumer.results) {
    list.results.push_back(consumer_map[static_cast<std::size_t>(r)]);
  }
  for (int k : keep) {
    list.results.push_back(
        producer_map[static_cast<std::size_t>(producer.results[static_cast<std::size_t>(k)])]);
  }
  return list;
}

}  // namespace traingraph::ir
