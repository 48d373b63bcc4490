// Binds encode(), encode_batch(), result states and destination descriptors of kernels, for one
// image and for a batch by one template each.
#pragma once

#include "mps/mps_bindings.h"

namespace traingraph::python {

inline mps::CommandBuffer& command_buffer(const Arguments& arguments) {
  // The caller holds it.
  return *arguments.get<mps::CommandBufferPtr>("command_buffer");
}

// A call of encode_batch(), whose names these are, or of encode(), where they have no "s" at the
// end and one item stands for a list.
struct Encoding {
  const Arguments& arguments;
  bool batch;

  mps::CommandBuffer& buffer() const { return command_buffer(arguments); }
  bool given(std::string_view name) const { return arguments.given(full(name)); }
  template <class Item>
  std::vector<Item> items(std::string_view name) const {
    if (batch) return arguments.get<std::vector<Item>>(name);
    return {arguments.get<Item>(full(name))};
  }
  mps::ImageBatch images(std::string_view name) const { return items<mps::ImagePtr>(name); }
  // None where the caller gave none.
  mps::StateBatch states(std::string_view name) const {
    return given(name) ? items<mps::StatePtr>(name) : mps::StateBatch();
  }
  template <class Item>
  py::object result(const std::vector<Item>& made) const {
    return batch ? py::cast(made) : py::cast(made[0]);
  }
  // Where new states go: the caller's list, or None. Raises DataTypeError for anything else.
  py::object list_of_states() const;
  // Images and their new states as a pair; or the images alone, and the states in that list.
  py::object with_states(const mps::ImageBatch& results, const mps::StateBatch& states,
                         const py::object& list) const;
  // "labels" is the name of both.
  std::string_view full(std::string_view name) const {
    return batch || name == "labels" ? name : name.substr(0, name.size() - 1);
  }
};

// The kernel's encode_batch() of these operands: into destinations, or to new images.
template <class Kernel, class... Operands>
py::object encode_into(const char* destination, Kernel& self, const Encoding& e,
                       Operands&&... operands) {
  if (!e.given(destination)) return e.result(self.encode_batch(e.buffer(), operands...));
  self.encode_batch(e.buffer(), operands..., e.images(destination));
  return py::none();
}

// With states as well, which are given with a destination or are new.
template <class Kernel, class... Sources>
py::object encode_forward(Kernel& self, const Encoding& e, const Sources&... sources) {
  mps::CommandBuffer& buffer = e.buffer();
  if (e.given("destination_images")) {
    self.encode_batch(buffer, sources..., e.states("destination_states"),
                      e.images("destination_images"));
    return py::none();
  }
  if constexpr (requires { self.encode_batch(buffer, sources...); }) {
    if (!e.arguments.given("destination_state_is_temporary")) {
      return e.result(self.encode_batch(buffer, sources...));
    }
  }
  const py::object list = e.list_of_states();
  mps::StateBatch states;
  const auto results = self.encode_batch(buffer, sources..., states,
                                         e.arguments.get<bool>("destination_state_is_temporary"));
  return e.with_states(results, states, list);
}

// What encode_forward() takes beside the sources.
inline const std::vector<std::string> kForwardForms = {
    "destination_image", "destination_state, destination_image", "",
    "[destination_state], destination_state_is_temporary", "destination_state_is_temporary"};

// `forms` are encode()'s behind the command buffer and `sources`: names of images, gradients,
// states, labels and truth values, "[name]" where a list takes what is made, or whole arguments
// that are the same in encode_batch().
std::vector<std::string> encode_forms(const std::string& sources,
                                      const std::vector<std::string>& forms, bool batch);

// encode() and encode_batch(); `call` takes the kernel and an Encoding.
template <typename Class, typename Call>
void def_encode(Class& cls, bool batch, const char* returns, const std::string& sources,
                const std::vector<std::string>& forms, const char* doc, Call call) {
  using Self = typename Class::type;
  const std::string several = "Sequence[MPSImage] | None";
  def_method(
      cls, batch ? "encode_batch" : "encode",
      batch && std::string(returns) == "MPSImage | None" ? several.c_str() : returns,
      encode_forms(sources, forms, batch), doc,
      [batch, call](Self& self, const Arguments& a) { return call(self, Encoding{a, batch}); });
}
template <typename Class, typename Call>
void def_encodes(Class& cls, const char* returns, const std::string& sources,
                 const std::vector<std::string>& forms, const char* doc, const char* batch_doc,
                 Call call) {
  def_encode(cls, false, returns, sources, forms, doc, call);
  def_encode(cls, true, returns, sources, forms, batch_doc, call);
}

// The four methods that make states.
struct ResultState {
  const char* name;
  bool batch;
  bool temporary;
  const char* doc;
};
inline constexpr ResultState kResultStates[] = {
    {"result_state", false, false, "A new permanent state."},
    {"result_state_batch", true, false, "New permanent states."},
    {"temporary_result_state", false, true,
     "A new state that lives on the command buffer, with a read count of 1."},
    {"temporary_result_state_batch", true, true,
     "New states that live on the command buffer, each with a read count of 1."}};
std::string result_state_form(const ResultState& row, const std::vector<std::string>& sources);

// `make` takes the kernel, a batch of each source and the command buffer or null.
template <typename Class, typename Make>
void def_result_states(Class& cls, const std::vector<std::string>& sources, Make make) {
  using Self = typename Class::type;
  for (const ResultState& row : kResultStates) {
    def_method(cls, row.name, row.batch ? "Sequence[MPSState]" : "MPSState",
               {result_state_form(row, sources)}, row.doc,
               [&row, sources, make](Self& self, const Arguments& a) {
                 std::vector<mps::ImageBatch> images;
                 for (const std::string& source : sources) {
                   const std::string name =
                       (images.empty() && !row.temporary ? "for_" : "") + source;
                   images.push_back(row.batch ? a.get<mps::ImageBatch>(name)
                                              : mps::ImageBatch{a.get<mps::ImagePtr>(name)});
                 }
                 const auto* const on = row.temporary ? &command_buffer(a) : nullptr;
                 return Encoding{a, row.batch}.result(make(self, images, on));
               });
  }
}

// destination_image_descriptor(); `make` takes the kernel, so many images and the arguments.
template <typename Class, typename Make>
void def_destination_descriptor(Class& cls, std::size_t count, const char* states, const char* doc,
                                Make make) {
  using Self = typename Class::type;
  const auto owner = py::cast<std::string>(cls.attr("__name__"));
  def_method(cls, "destination_image_descriptor", "MPSImageDescriptor",
             {std::string("for_source_images: Sequence[MPSImage], source_states: ") + states}, doc,
             [owner, count, make](Self& self, const Arguments& a) {
               const auto sources = a.get<mps::ImageBatch>("for_source_images");
               if (sources.size() == count || (count == 1 && !sources.empty())) {
                 return make(self, sources, a);
               }
               throw InvalidArgument("[" + owner + "] expected " + std::to_string(count) +
                                     " source images but got " + std::to_string(sources.size()));
             });
}

// (x, y) or (x, y, z).
mps::Offset to_offset(py::handle value, const char* subject);
py::object from_offset(const mps::Offset& offset);
// MTLRegion, or (x, y[, z]), (width, height[, depth]).
mps::Region to_region(py::handle value, const char* subject);
py::object from_region(const mps::Region& region);

}  // namespace traingraph::python
