// Binds MPSNNGraph: encoding, asynchronous execution, handles of sources and results, and reload
// from data sources.
#include "convert/errors.h"
#include "convert/release.h"
#include "mps/coding.h"
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::NNGraph;
using mps::NNImageNodePtr;

std::shared_ptr<NNGraph> make_graph(const Arguments& a) {
  const mps::Device device = idle(to_mps_device(a["device"]));
  if (a.given("result_images")) {
    return std::make_shared<NNGraph>(device, a.get<std::vector<NNImageNodePtr>>("result_images"),
                                     a.get<std::vector<bool>>("results_are_needed"));
  }
  return std::make_shared<NNGraph>(device, std::vector{a.get<NNImageNodePtr>("result_image")},
                                   std::vector<bool>{a.get<bool>("result_image_is_needed")});
}

// Adds to the caller's list, which may be None.
template <class Batches>
void append(const py::object& list, const Batches& batches, bool batch) {
  if (list.is_none()) return;
  for (const auto& one : batches) {
    list.attr("append")(batch ? py::cast(one) : py::cast(one.at(0)));
  }
}

py::object encode_graph(NNGraph& self, const Arguments& a, bool batch) {
  std::vector<mps::ImageBatch> images;
  std::vector<mps::StateBatch> states;
  if (batch) {
    images = a.get<std::vector<mps::ImageBatch>>("source_images");
    states = a.optional<std::vector<mps::StateBatch>>("source_states")
                 .value_or(std::vector<mps::StateBatch>{});
  } else {
    for (const auto& image : a.get<mps::ImageBatch>("source_images")) images.push_back({image});
    for (const auto& state :
         a.optional<mps::StateBatch>("source_states").value_or(mps::StateBatch{})) {
      states.push_back({state});
    }
  }
  const NNGraph::Results results = self.encode_batch(command_buffer(a), images, states);
  append(a["intermediate_images"], results.intermediate_images, batch);
  append(a["destination_states"], results.states, batch);
  if (results.images.empty()) return py::none();
  return Encoding{a, batch}.result(results.images);
}

NNGraph::CompletionHandler completion_handler(py::object function) {
  if (function.is_none()) return nullptr;
  to_callable(function, {"MPSNNGraph.execute_async", "completion_handler", "a callable or None"});
  const auto kept = share(std::move(function));
  return [kept](const mps::ImagePtr& image, const std::exception_ptr& error) {
    const HeldGil held;
    const py::object callable = shared_object(kept);
    try {
      callable(image, error == nullptr ? py::object(py::none()) : to_python(error));
    } catch (py::error_already_set& failure) {
      failure.discard_as_unraisable(callable);
    }
  };
}

std::vector<py::object> handles(const std::vector<mps::HandlePtr>& of) {
  std::vector<py::object> objects;
  for (const mps::HandlePtr& handle : of) objects.push_back(from_handle(handle));
  return objects;
}

}  // namespace

void bind_mps_graph(py::module_& module) {
  auto cls = BoundClass<NNGraph, mps::Kernel, std::shared_ptr<NNGraph>>(
      module, "MPSNNGraph", "All nodes that results need, as kernels that are made once.");
  const std::string device = "device: MTLDevice | MLCDevice | str, ";
  def_init(cls,
           {device + "result_image: MPSNNImageNode, result_image_is_needed: bool = True",
            device + "result_images: list[MPSNNImageNode], results_are_needed: list[bool]",
            "coder: Any, device: MTLDevice | MLCDevice | str | None = None"},
           "The first result is returned, the others are intermediate images. Errors: a result "
           "that no node makes.",
           [](const Arguments& a) {
             if (!a.given("coder")) return make_graph(a);
             const py::object graph = python_coding("decoded", "graph_coding")(
                 py::type::of<NNGraph>(), a["coder"], a["device"]);
             return py::cast<std::shared_ptr<NNGraph>>(graph);
           });
  def_coding(
      cls,
      [](NNGraph& self, const py::object& coder) {
        python_coding("encode", "graph_coding")(py::cast(&self), coder);
      },
      [](NNGraph& self, const py::object& device) {
        return python_coding("copied", "graph_coding")(py::cast(&self), device);
      });
  cls.def_property_readonly("_results", &NNGraph::results, "What it was made of.");
  cls.def_property_readonly("_results_are_needed", &NNGraph::results_are_needed,
                            "What it was made of.");
  const auto list = [&cls](const char* name, std::vector<mps::HandlePtr> (NNGraph::*get)() const,
                           const char* doc) {
    cls.def_property_readonly(
        name, [get](const NNGraph& self) { return handles((self.*get)()); }, doc);
  };
  list("source_image_handles", &NNGraph::source_image_handles,
       "In the order in which an encoding takes them.");
  list("source_state_handles", &NNGraph::source_state_handles,
       "In the order in which an encoding takes them.");
  list("intermediate_image_handles", &NNGraph::intermediate_image_handles,
       "Needed results after the first, then exported images.");
  list("result_state_handles", &NNGraph::result_state_handles, "Of exported states.");
  cls.def_property_readonly(
      "result_handle", [](const NNGraph& self) { return from_handle(self.result_handle()); },
      "Of the first result, or None.");
  cls.def_property_readonly("result_image_is_needed", &NNGraph::result_image_is_needed,
                            "Whether the first result is made.");
  cls.def_readwrite(
      "format", &NNGraph::format,
      "Of images between nodes that have none of their own: float32 at the beginning.");
  cls.def_property(
      "destination_image_allocator",
      [](const NNGraph& self) { return from_allocator(self.image_allocator()); },
      [](NNGraph& self, const py::object& value) {
        self.set_image_allocator(
            to_allocator(value, {"MPSNNGraph", "destination_image_allocator", ""}));
      },
      "Makes the results: MPSTemporaryImage.default_allocator() at the beginning, which leaves "
      "them "
      "to the image nodes'; MPSImage.default_allocator(); or an object with image(command_buffer, "
      "image_descriptor, kernel) and image_batch(command_buffer, image_descriptor, kernel, "
      "count).");
  cls.def_property("makes_temporary_images", &NNGraph::makes_temporary_images,
                   &NNGraph::set_makes_temporary_images,
                   "Whether the allocator is that of temporary images. False makes it that of "
                   "permanent ones; an addition of traingraph.");
  cls.def_readwrite("output_state_is_temporary", &NNGraph::output_state_is_temporary,
                    "Whether exported states are temporary.");
  cls.def(
      "reload_from_data_sources",
      [](NNGraph& self) {
        idle(self.device());
        self.reload_from_data_sources();
      },
      "Loads weights, gamma, beta and statistics anew; waits for what was committed.");
  def_method(cls, "encode", "MPSImage | None",
             {"command_buffer: MTLCommandBuffer, source_images: Sequence[MPSImage], "
              "source_states: Sequence[MPSState] | None = None, "
              "intermediate_images: list[MPSImage] | None = None, "
              "destination_states: list[MPSState] | None = None"},
             "Encodes one image per source handle; the result, or None when it is not needed. "
             "What is exported is appended to the two lists.",
             [](NNGraph& self, const Arguments& a) { return encode_graph(self, a, false); });
  def_method(cls, "encode_batch", "Sequence[MPSImage] | None",
             {"command_buffer: MTLCommandBuffer, source_images: list[Sequence[MPSImage]], "
              "source_states: Sequence[Sequence[MPSState]] | None "
              "= None, "
              "intermediate_images: list[Sequence[MPSImage]] | None = None, "
              "destination_states: list[Sequence[MPSState]] | None = None"},
             "Encodes one batch per source handle; the results, or None when they are not needed. "
             "Errors: another number of batches, images of another device, a source too small.",
             [](NNGraph& self, const Arguments& a) { return encode_graph(self, a, true); });
  def_method(
      cls, "execute_async", "MPSImage | None",
      {"with_source_images: Sequence[MPSImage], "
       "completion_handler: Callable[[MPSImage | None, Exception | None], None] | "
       "None = None"},
      "Encodes one image per source handle to a command buffer of its own and commits it. The "
      "result is permanent, and None where it is not needed; the handler is called with it, or "
      "with "
      "None and the error, when the run is done. Errors: as encode; a graph with labels.",
      [](NNGraph& self, const Arguments& a) {
        return self.execute_async(a.get<mps::ImageBatch>("with_source_images"),
                                  completion_handler(a["completion_handler"]));
      });
  def_call(cls, "read_count_for_source_image", "int", "at_index: int",
           "By how much an encoding lowers the source's read count, by its place in "
           "source_image_handles. Errors: no such place.",
           &NNGraph::read_count_for_source_image);
  def_call(cls, "read_count_for_source_state", "int", "at_index: int",
           "The same by source_state_handles: 0, as labels are permanent.",
           &NNGraph::read_count_for_source_state);
}

}  // namespace traingraph::python
