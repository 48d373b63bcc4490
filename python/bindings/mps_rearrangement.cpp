// What reshaping and concatenation encode.
#include "mps_bindings.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNKernel;
using mps::NNConcatenation;
using mps::NNReshape;

// Sets the size and goes on as the base class does.
py::object encode_reshape(NNReshape& self, const Arguments& arguments, const char* method) {
  if (arguments.given("reshaped_width")) {
    self.set_reshaped(arguments.get<std::int64_t>("reshaped_width"),
                      arguments.get<std::int64_t>("reshaped_height"),
                      arguments.get<std::int64_t>("reshaped_feature_channels"));
  }
  py::dict others;
  for (const char* name :
       {"source_image", "source_images", "destination_image", "destination_images",
        "destination_state", "destination_states", "destination_state_is_temporary"}) {
    if (arguments.given(name)) others[name] = arguments[name];
  }
  return py::type::of<CNNKernel>().attr(method)(py::cast(&self), arguments["command_buffer"],
                                                **others);
}

std::vector<std::string> reshape_forms(bool batch) {
  const std::string end = batch ? "s" : "";
  const std::string image = batch ? "collections.abc.Sequence[MPSImage]" : "MPSImage";
  const std::string state = batch ? "collections.abc.Sequence[MPSState]" : "MPSState";
  const std::string source = "command_buffer: MTLCommandBuffer, source_image" + end + ": " + image;
  const std::string to = ", destination_image" + end + ": " + image;
  const std::string size =
      ", reshaped_width: int, reshaped_height: int, reshaped_feature_channels: int";
  const std::string flag = ", destination_state_is_temporary: bool";
  const std::string list = ", destination_state" + end + ": list[MPSState]";
  return {source + size, source + flag + size, source + list + flag + size, source + to,
          source + ", destination_state" + end + ": " + state + to};
}

void bind_reshape(py::module_& module) {
  auto cls = described<NNReshape>(module, "MPSNNReshape");
  def_method(cls, "encode", "typing.Any", reshape_forms(false),
             "Encodes one image. Errors: another number of elements.",
             [](NNReshape& self, const Arguments& a) { return encode_reshape(self, a, "encode"); });
  def_method(
      cls, "encode_batch", "typing.Any", reshape_forms(true),
      "Encodes a batch. Errors: another number of elements.",
      [](NNReshape& self, const Arguments& a) { return encode_reshape(self, a, "encode_batch"); });
}

void bind_concatenation(py::module_& module) {
  auto cls = described<NNConcatenation>(module, "MPSNNConcatenation");
  const std::string sources =
      "command_buffer: MTLCommandBuffer, source_images: list[collections.abc.Sequence[MPSImage]]";
  def_method(
      cls, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {sources, sources + ", destination_images: collections.abc.Sequence[MPSImage]"},
      "One batch per source. Gradient: one MPSNNSlice per source.",
      [](NNConcatenation& self, const Arguments& arguments) -> py::object {
        std::vector<mps::ImageBatch> batches;
        for (const py::object& batch :
             to_items(arguments["source_images"], arguments.where("source_images"))) {
          batches.push_back(convert<mps::ImageBatch>(batch, arguments.where("source_images")));
        }
        mps::CommandBuffer& buffer = command_buffer(arguments);
        if (!arguments.given("destination_images")) {
          return py::cast(self.encode_batch(buffer, batches));
        }
        self.encode_batch(buffer, batches, images(arguments, "destination_images", true));
        return py::none();
      });
}

}  // namespace

void bind_mps_rearrangement(py::module_& module) {
  bind_reshape(module);
  bind_concatenation(module);
}

}  // namespace traingraph::python
