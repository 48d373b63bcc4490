// Binds MPSNNGraph, and adds encoding, and asynchronous execution.
#include "classes/python_types.h"
#include "convert/errors.h"
#include "convert/release.h"
#include "mps/coding.h"
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::NNGraph;
using mps::NNImageNodePtr;

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
      call_or_stay(callable, py::make_tuple(image, error == nullptr ? py::object(py::none())
                                                                    : to_python(error)));
    } catch (py::error_already_set& failure) {
      failure.discard_as_unraisable(callable);
    }
  };
}

}  // namespace

void bind_mps_graph(py::module_& module) {
  remember_taken<mps::CodedGraph>("typing.Any", [](py::handle value, const Where&) {
    const auto coder = py::reinterpret_borrow<py::object>(value);
    return mps::CodedGraph{to_coder(coder), [kept = share(coder)](const mps::Device& device) {
                             return without_damage([&] {
                               return py::cast<std::shared_ptr<NNGraph>>(python_coding(
                                   "decoded", "graph_coding")(shared_object(kept), device));
                             });
                           }};
  });
  remember_list<bool>("bool");
  remember_list<mps::HandlePtr>("typing.Any");
  Ownership ownership = python::ownership<mps::Kernel>();
  // With the GIL data sources are asked, and handlers of queued runs may need it as well.
  ownership.before_making = [](const Given& given) {
    if (const auto device = given.get_optional<mps::Device>("device")) idle(*device);
  };
  bind_described(module, NNGraph::class_description(), ownership);
  auto cls = described<NNGraph>(module, "MPSNNGraph");
  def_method(cls, "encode", "MPSImage | None",
             {"command_buffer: MTLCommandBuffer, source_images: Sequence[MPSImage], "
              "source_states: Sequence[MPSState] | None = None, "
              "intermediate_images: list[MPSImage] | None = None, "
              "destination_states: list[MPSState] | None = None"},
             "Encodes one image per source handle; the result, or None when it is not needed. "
             "Exported images and states are appended to the two lists.",
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
}

}  // namespace traingraph::python
