// Graphs of nodes, as kernels.
#include <traingraph/mps/graph.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using Images = std::vector<NNImageNodePtr>;
using Needed = std::vector<bool>;

std::shared_ptr<NNGraph> made_of(const Given& given, const Images& results, const Needed& needed) {
  return std::make_shared<NNGraph>(given.get<Device>("device"), results, needed);
}

}  // namespace

const ClassDescription& NNGraph::class_description() {
  using G = NNGraph;
  constexpr const char* kOrder = "In the order in which an encoding takes them.";
  constexpr const char* kPlace = "Its place in the order of the handles.";
  static const ClassDescription description =
      Describing<G, Kernel>("MPSNNGraph",
                            "All nodes that results need, as kernels that are made once.")
          .text(
              "The first result is returned, the others are intermediate images. Shapes: as its "
              "nodes have them. Errors: a result that no node makes.")
          .form({device_argument(),
                 argument<NNImageNodePtr>("result_image", "The image that the graph computes."),
                 argument("result_image_is_needed", true, "Whether the result is made.")},
                [](const Given& given) {
                  return made_of(given, {given.get<NNImageNodePtr>("result_image")},
                                 {given.get<bool>("result_image_is_needed")});
                })
          .form({device_argument(),
                 argument<Images>("result_images", "The images that the graph computes."),
                 argument<Needed>("results_are_needed", "For each result, whether it is made.")},
                [](const Given& given) {
                  return made_of(given, given.get<Images>("result_images"),
                                 given.get<Needed>("results_are_needed"));
                })
          .form({argument<CodedGraph>("coder", "NSCoder, such as MPSKeyedUnarchiver."),
                 traingraph::optional_argument<Device>("device",
                                                       "The device; without it the coder's.")},
                [](const Given& given) {
                  return graph_with_coder(given.get<CodedGraph>("coder"),
                                          given.get_optional<Device>("device"));
                })
          .property("_results", &G::results, "What it was made of.")
          .property("_results_are_needed", &G::results_are_needed, "What it was made of.")
          .property("source_image_handles", &G::source_image_handles, kOrder)
          .property("source_state_handles", &G::source_state_handles, kOrder)
          .property("intermediate_image_handles", &G::intermediate_image_handles,
                    "Needed results after the first, then exported images.")
          .property("result_state_handles", &G::result_state_handles, "Of exported states.")
          .optional_property("result_handle", &G::result_handle,
                             "The handle of the first result, or None.")
          .property("result_image_is_needed", &G::result_image_is_needed,
                    "Whether the first result is made.")
          .settable("format", &G::format,
                    "Of images between nodes that have none of their own: float32 at the "
                    "beginning.")
          .settable(kAllocator, &G::image_allocator, &G::set_image_allocator,
                    "Makes the results: MPSTemporaryImage.default_allocator() at the beginning, "
                    "which leaves them to the image nodes'; MPSImage.default_allocator(); or an "
                    "object with image(command_buffer, image_descriptor, kernel) and "
                    "image_batch(command_buffer, image_descriptor, kernel, count).")
          .settable("makes_temporary_images", &G::makes_temporary_images,
                    &G::set_makes_temporary_images, kMakesTemporaryImages)
          .settable("output_state_is_temporary", &G::output_state_is_temporary,
                    "Whether exported states are temporary.")
          .function("reload_from_data_sources", &G::reload_from_data_sources,
                    "Loads weights, gamma, beta and statistics anew; waits for what was "
                    "committed.")
          .waits_first(idle)
          .function("read_count_for_source_image", &G::read_count_for_source_image,
                    "By how much an encoding lowers the source's read count. Errors: no such "
                    "place.",
                    {{"at_index", kPlace}})
          .function("read_count_for_source_state", &G::read_count_for_source_state,
                    "The same by source_state_handles: 0, as labels are permanent.",
                    {{"at_index", kPlace}});
  return description;
}

}  // namespace traingraph::mps
