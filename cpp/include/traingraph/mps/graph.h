// NNGraph, which encodes a graph of nodes for a batch and has data sources update the trained
// weights.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/mps/kernel.h>
#include <traingraph/mps/nodes.h>

namespace traingraph::mps {

class GraphEncoding;
class GraphReplay;

// Everything that results need, as kernels that are made once. The allocator makes the results; one
// that makes temporary images leaves them to the image nodes'. Encodings of one graph record the
// same, so that all but the first find their program.
//
// The gradient nodes among them train: a data source of style GPU is asked to encode an update as
// soon as its gradient is encoded; those of style CPU are called when the command buffer is done,
// and what they raise is raised by the next encoding.
class TRAINGRAPH_API NNGraph final : public Kernel, public AllocatesImages {
 public:
  // Raises InvalidArgument, naming the node, for a result that no node makes and for one that is
  // given twice.
  NNGraph(const Device& device, const std::vector<NNImageNodePtr>& results,
          const std::vector<bool>& results_are_needed);
  ~NNGraph() override;
  const char* kind() const override { return "MPSNNGraph"; }

  // The results that it was made of.
  const std::vector<NNImageNodePtr>& results() const;
  const std::vector<bool>& results_are_needed() const;
  // In the order in which an encoding takes them.
  std::vector<HandlePtr> source_image_handles() const;
  std::vector<HandlePtr> source_state_handles() const;
  // In the order in which an encoding gives them: needed results after the first, then exported
  // images.
  std::vector<HandlePtr> intermediate_image_handles() const;
  std::vector<HandlePtr> result_state_handles() const;
  HandlePtr result_handle() const;
  bool result_image_is_needed() const;
  // Of images between the nodes whose format is kNone.
  ChannelFormat format = ChannelFormat::kFloat32;
  // Of exported states.
  bool output_state_is_temporary = false;

  // Weights, gamma, beta and statistics anew.
  void reload_from_data_sources();

  struct Results {
    ImageBatch images;  // empty when not needed
    std::vector<ImageBatch> intermediate_images;
    std::vector<StateBatch> states;
  };
  // One batch for each source handle. A temporary source is read once, by however many nodes.
  // A refused encoding leaves the buffer as it was.
  Results encode_batch(CommandBuffer& buffer, const std::vector<ImageBatch>& source_images,
                       const std::vector<StateBatch>& source_states = {});

  // Encodes one image per source to a new command buffer and commits it. The result, which is
  // permanent and has its pixels when the handler is called, or null where it is not needed. The
  // handler gets the error of the run, or null.
  using CompletionHandler = std::function<void(const ImagePtr&, const std::exception_ptr&)>;
  ImagePtr execute_async(const ImageBatch& source_images, CompletionHandler handler);

  // By how much an encoding lowers the read count of a source, by its place in the order of the
  // handles. Raises InvalidArgument where there is none.
  std::int64_t read_count_for_source_image(std::int64_t index) const;
  std::int64_t read_count_for_source_state(std::int64_t index) const;
  void visit_owned(OwnershipVisitor& visitor) const override;
  static const ClassDescription& class_description();

 protected:
  OperationPtr make_operation() const override;

 private:
  friend class GraphEncoding;
  struct Failure;
  void check_sources(const std::vector<ImageBatch>& images,
                     const std::vector<StateBatch>& states) const;

  std::unique_ptr<GraphPlan> plan_;
  std::unique_ptr<GraphReplay> replay_;  // of the last encoding
  std::shared_ptr<Failure> failure_;
};

class Coder;

// A graph that an archive has; `decode` makes it on a device. Raises InvalidArgument for other
// archives.
struct CodedGraph {
  std::shared_ptr<const Coder> coder;
  std::function<std::shared_ptr<NNGraph>(const Device& device)> decode;
};
// On this device or else on the coder's, as kernel_with_coder.
TRAINGRAPH_API std::shared_ptr<NNGraph> graph_with_coder(const CodedGraph& coded,
                                                         const std::optional<Device>& device = {});

}  // namespace traingraph::mps
