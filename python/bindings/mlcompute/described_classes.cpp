// ML Compute's classes that are described in the core.
#include <pybind11/stl.h>

#include <algorithm>
#include <map>

#include "bindings.h"
#include "classes/described_class.h"
#include "classes/python_types.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "execution/execution.h"
#include "mlcompute/fit.h"

namespace traingraph::python {
namespace {

template <typename Base>
void bind_all(py::module_& module, const std::vector<DescribedClass>& classes) {
  for (const DescribedClass& described : classes) {
    const ClassDescription& description = described();
    bind_described(module, description,
                   description.copy == nullptr ? ownership<Base>() : ownership<void>());
  }
}

KernelReport kernels(const std::string& layer, py::handle data_type, py::handle on,
                     const char* asked) {
  const auto& classes = layer_classes();
  const auto found = std::ranges::find_if(
      classes, [&layer](DescribedClass described) { return described().name == layer; });
  if (found == classes.end() || (*found)().sample == nullptr) {
    throw InvalidArgument("[" + std::string(asked) +
                          "] expected the name of a class of layers but got '" + layer + "'");
  }
  const LayerSample made = (*found)().sample(to_data_type(data_type));
  return kernels_of(*made.layer, made.sources, to_device(on));
}

// None where the device computes layers of this class in this type.
std::optional<std::string> why_unsupported(const std::string& layer, py::handle data_type,
                                           py::handle on) {
  std::string why = kernels(layer, data_type, on, "why_unsupported").missing;
  return why.empty() ? std::nullopt : std::optional(std::move(why));
}

std::map<std::string, std::vector<std::string>> stand_ins(const std::string& layer,
                                                          py::handle data_type, py::handle on) {
  const KernelReport report = kernels(layer, data_type, on, "stand_ins");
  return {{"composed", report.composed}, {"looped", report.looped}, {"own", report.own}};
}

}  // namespace

void bind_layers(py::module_& module) {
  bind_all<Layer>(module, layer_classes());
  const std::string asked =
      "layer: str, data_type: MLCDataType | DTypeLike, on: MLCDevice | str, *";
  def_function(module, "why_unsupported", "str | None", {asked},
               "Why a device does not compute layers of a class in a type; None where it does.",
               [](const Arguments& given) {
                 return why_unsupported(to_text(given["layer"], given.where("layer")),
                                        given["data_type"], given["on"]);
               });
  def_function(
      module, "stand_ins", "dict[str, list[str]]", {asked},
      "The ops of such layers: those that have no kernel of the device and are composed of "
      "others, those that run by portable loops, and those that have kernels.",
      [](const Arguments& given) {
        return stand_ins(to_text(given["layer"], given.where("layer")), given["data_type"],
                         given["on"]);
      });
  def_function(
      module, "looped_ops", "list[str]", {"backend: str, *"},
      "The ops that the backend cpu or bnns leaves to the reference implementation in every case.",
      [](const Arguments& given) {
        return looped_ops(to_text(given["backend"], given.where("backend")));
      });
}

// An exception that ends the program ends those that wait for it.
void abandoned_on_errors(const distributed::Communicator& ranks) {
  if (ranks.size() == 1) return;
  py::module_::import("traingraph._abandoned_ranks").attr("abandon_on_errors")(ranks);
}

std::uintptr_t mpi_handle(const py::object& communicator) {
  return py::module_::import("traingraph._abandoned_ranks")
      .attr("handle_of")(communicator)
      .cast<std::uintptr_t>();
}

void bind_distributed(py::module_& module) {
  bind_all<void>(module, {distributed::Communicator::class_description});
  def_function(module, "world", "Communicator", {""},
               "The ranks that this program was started as, and this one among them: those that "
               "the environment variables of torchrun, mpirun or srun tell of; without any of them "
               "one. The first call connects them. Errors: DistributedError where a rank or a "
               "library is missing; ValueError for a variable without the others that it needs.",
               [](const Arguments&) {
                 const ReleasedGil released;
                 return distributed::world();
               });
  def_function(module, "from_mpi", "Communicator", {"communicator: object"},
               "The ranks of a communicator of mpi4py, in a copy of it; all of its ranks call. "
               "Errors: DistributedError where MPI runs at a lower level than "
               "MPI_THREAD_SERIALIZED; TypeError for another object.",
               [](const Arguments& given) {
                 const std::uintptr_t handle = mpi_handle(given["communicator"]);
                 distributed::Communicator ranks = [&] {
                   const ReleasedGil released;
                   return distributed::from_mpi_handle(handle);
                 }();
                 abandoned_on_errors(ranks);
                 return ranks;
               });
}

void bind_records(py::module_& module) {
  bind_all<void>(module, {MemoryPlan::class_description, MemoryPlan::Entry::class_description,
                          Profile::class_description, Profile::Entry::class_description,
                          Profile::Layer::class_description, Evaluation::class_description,
                          Epoch::class_description, RateSchedule::class_description,
                          GradientRow::class_description, GradientCheck::class_description});
  bind_all<FitCallback>(module, {FitCallback::class_description, EarlyStopping::class_description,
                                 CSVLog::class_description, Checkpoint::class_description});
}

void bind_graphs(py::module_& module) {
  bind_all<Graph>(module, {Graph::class_description, ExecutableGraph::class_description,
                           TrainingGraph::class_description, InferenceGraph::class_description});
  add_fit(module);
  def_training_execution(module.attr("MLCTrainingGraph"));
  def_inference_execution(module.attr("MLCInferenceGraph"));
}

void bind_optimizers(py::module_& module) { bind_all<Optimizer>(module, optimizer_classes()); }

}  // namespace traingraph::python
