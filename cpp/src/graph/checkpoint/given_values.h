// Values of a checkpoint that a graph is to take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "graph/checkpoint/checkpoint_contents.h"
#include "graph/checkpoint/safetensors.h"

namespace traingraph {

bool is_of_training(const std::string& name);

// Values by name, and how their types are called where they come from.
struct Values {
  std::string source;
  std::map<std::string, StoredTensor> tensors;
  const SafetensorsFile* file = nullptr;  // of which nothing but the header has been read

  bool any_of_training() const {
    return std::ranges::any_of(tensors, [](const auto& one) { return is_of_training(one.first); });
  }
  void read(bool with_training) {
    for (auto& [name, tensor] : tensors) {
      if (with_training || !is_of_training(name)) file->read(tensor);
    }
  }
  bool has_begun_step() const { return tensors.contains(kSummed); }
  bool any_slot_of(const std::string& parameter, const std::vector<std::string>& slots) const {
    return std::any_of(slots.begin(), slots.end(), [&](const std::string& slot) {
      return tensors.contains(slot_name(parameter, slot));
    });
  }
  const TensorData& at(const std::string& name) const { return tensors.at(name).data; }
  std::int64_t number(const std::string& name) const {
    std::int64_t value = 0;
    std::memcpy(&value, at(name).bytes, sizeof value);
    return value;
  }
};

// Raises InvalidArgument with all that differs from what the graph has.
void check_values(const Values& values, const Contents& contents, const GraphState& state);

}  // namespace traingraph
