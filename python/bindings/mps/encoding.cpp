// Writes the forms of encode(), encode_batch() and the result state methods, and returns images
// with their new states.
#include "mps/encoding.h"

namespace traingraph::python {
namespace {

constexpr const char* kCommandBuffer = "command_buffer: MTLCommandBuffer, ";

std::string with_type(const std::string& name, bool batch) {
  if (name.find(':') != std::string::npos) return name;
  if (name.ends_with("_is_temporary")) return name + ": bool";
  const std::string end = batch ? "s: " : ": ";
  if (name[0] == '[') return name.substr(1, name.size() - 2) + end + "list[MPSState]";
  if (name == "labels")
    return batch ? "labels: list[MPSCNNLossLabels]" : "labels: MPSCNNLossLabels";
  const char* const type = name.ends_with("_state") ? "MPSState" : "MPSImage";
  return name + end + (batch ? std::string("Sequence[") + type + "]" : type);
}

}  // namespace

py::object Encoding::list_of_states() const {
  const std::string_view name = full("destination_states");
  if (!arguments.given(name)) return py::none();
  py::object list = arguments[name];
  if (!py::isinstance<py::list>(list)) refuse(arguments.where(name), list);
  return list;
}

py::object Encoding::with_states(const mps::ImageBatch& results, const mps::StateBatch& states,
                                 const py::object& list) const {
  py::object made = result(results);
  if (list.is_none()) return py::make_tuple(std::move(made), result(states));
  for (const mps::StatePtr& state : states) list.attr("append")(state);
  return made;
}

std::vector<std::string> encode_forms(const std::string& sources,
                                      const std::vector<std::string>& forms, bool batch) {
  std::vector<std::string> lines;
  for (const std::string& form : forms) {
    std::string& line = lines.emplace_back(kCommandBuffer);
    std::string rest = sources + (form.empty() ? "" : ", ") + form;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(", "), rest.size());
      line += with_type(rest.substr(0, end), batch) + ", ";
      rest.erase(0, end + 2);
    }
  }
  return lines;
}

std::string result_state_form(const ResultState& row, const std::vector<std::string>& sources) {
  const std::string image = row.batch ? "Sequence[MPSImage]" : "MPSImage";
  std::string line = row.temporary ? kCommandBuffer : "for_";
  for (const std::string& source : sources) line += source + ": " + image + ", ";
  return line +
         "source_states: " + (row.batch ? "list[Sequence[MPSState]]" : "Sequence[MPSState]") +
         " | None = None, destination_image: " + image + " | None = None";
}

}  // namespace traingraph::python
