#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/mps/neuron_names.h>

#include "mps_bindings.h"
#include "python_types.h"

// The nodes of neurons that have classes by name.
namespace traingraph::python {

struct NeuronName {
  mps::NeuronType type;
  std::string name;        // "ReLU" of MPSCNNNeuronReLUNode
  std::string parameters;  // as they stand in a form
  const char* doc;
};

inline NeuronName name_of_node(const mps::NeuronName& row) {
  NeuronName name{row.type, std::string(row.name).substr(std::string("MPSCNNNeuron").size()), "",
                  row.summary};
  for (std::size_t k = 0; k < row.parameters; ++k) {
    name.parameters += std::string(", ") + mps::kNeuronParameters[k].name + ": float";
    if (!row.has_defaults) continue;
    name.parameters += " = " + text_of({&typeid(float)}, row.defaults[k]);
  }
  return name;
}

// Calls f.template operator()<type>(row) for each.
template <typename F>
void each_neuron(const F& f) {
  [&f]<std::size_t... kRow>(std::index_sequence<kRow...>) {
    (f.template operator()<mps::kNeuronNames[kRow].type>(name_of_node(mps::kNeuronNames[kRow])),
     ...);
  }(std::make_index_sequence<std::size(mps::kNeuronNames)>());
}

// The numbers that were given, with the descriptor's own for those that the form does not have.
inline mps::NeuronDescriptor named_neuron(const NeuronName& row, const Arguments& a,
                                          std::vector<float> slopes) {
  mps::NeuronDescriptor descriptor;
  descriptor.type = row.type;
  descriptor.data = std::move(slopes);
  if (row.type == mps::NeuronType::kPReLU) return descriptor;
  for (const mps::NeuronParameter& parameter : mps::kNeuronParameters) {
    float& number = descriptor.*parameter.member;
    number = a.optional<float>(parameter.name).value_or(number);
  }
  return descriptor;
}

}  // namespace traingraph::python
