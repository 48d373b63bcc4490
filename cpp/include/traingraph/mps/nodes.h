// Base classes of graph nodes: NNFilterNode is an operation, NNImageNode and NNStateNode are images
// and states between operations. NNGraph encodes them; training_graph() adds gradient nodes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

class NNFilterNode;
class GraphStep;
class GraphPlan;
using NNFilterNodePtr = std::shared_ptr<NNFilterNode>;

// Something of the program's own by which it knows an image or a state again.
struct TRAINGRAPH_API Handle {
  std::string label;
  std::shared_ptr<const void> object;  // kept alive
  void visit_owned(OwnershipVisitor& visitor) const { visitor(object); }
};
using HandlePtr = std::shared_ptr<const Handle>;

// Whose encoding in a graph of the trainable nodes calls the data source.
enum class NNTrainingStyle : int {
  kUpdateDeviceNone = 0,
  kUpdateDeviceCPU = 1,
  kUpdateDeviceGPU = 2,
};

// A place of an image: a source of the graph, or what a filter makes.
class TRAINGRAPH_API NNImageNode : public AllocatesImages {
 public:
  explicit NNImageNode(HandlePtr handle_in = nullptr) : handle(std::move(handle_in)) {}
  NNImageNode(const NNImageNode&) = delete;
  NNImageNode& operator=(const NNImageNode&) = delete;

  HandlePtr handle;
  // kNone: the graph's.
  ChannelFormat format = ChannelFormat::kNone;
  // Whether an encoding hands it out.
  bool export_from_graph = false;
  // Whether the host reads it behind the run. Reads wait for the device here in any case.
  bool synchronize_resource = false;
  // Whether a training graph ends here.
  bool stop_gradient = false;
  // Null for a source of the graph.
  NNFilterNode* producer() const { return producer_; }
  void visit_owned(OwnershipVisitor& visitor) const;
  // "image 'x'", "result of MPSCNNConvolutionNode 'conv1'"
  std::string description() const;

 private:
  friend class NNFilterNode;
  NNFilterNode* producer_ = nullptr;
};
// That of a result keeps its filter.
using NNImageNodePtr = std::shared_ptr<NNImageNode>;

// A place of states, one per image or one for all.
class TRAINGRAPH_API NNStateNode {
 public:
  virtual ~NNStateNode();
  NNStateNode(const NNStateNode&) = delete;
  NNStateNode& operator=(const NNStateNode&) = delete;
  virtual const char* kind() const { return "MPSNNStateNode"; }
  HandlePtr handle;
  // Whether an encoding hands it out.
  bool export_from_graph = false;
  // As of an image node.
  bool synchronize_resource = false;
  NNFilterNode* owner() const { return owner_; }
  void visit_owned(OwnershipVisitor& visitor) const;
  // Whether the program brings it.
  virtual bool is_source() const { return false; }

 protected:
  NNStateNode() = default;

 private:
  friend class NNFilterNode;
  NNFilterNode* owner_ = nullptr;
};
using NNStateNodePtr = std::shared_ptr<NNStateNode>;

class TRAINGRAPH_API NNGradientStateNode : public NNStateNode {
 public:
  const char* kind() const override { return "MPSNNGradientStateNode"; }
};

class TRAINGRAPH_API CNNConvolutionGradientStateNode : public NNGradientStateNode {
 public:
  const char* kind() const override { return "MPSCNNConvolutionGradientStateNode"; }
};

class TRAINGRAPH_API CNNConvolutionTransposeGradientStateNode final
    : public CNNConvolutionGradientStateNode {
 public:
  const char* kind() const override { return "MPSCNNConvolutionTransposeGradientStateNode"; }
};

// The same of a filter with two sources.
class TRAINGRAPH_API NNBinaryGradientStateNode : public NNStateNode {
 public:
  const char* kind() const override { return "MPSNNBinaryGradientStateNode"; }
};

class TRAINGRAPH_API NNArithmeticGradientStateNode final : public NNBinaryGradientStateNode {
 public:
  const char* kind() const override { return "MPSNNArithmeticGradientStateNode"; }
};

// The labels of a loss: CNNLossLabels.
class TRAINGRAPH_API NNLabelsNode final : public NNStateNode {
 public:
  const char* kind() const override { return "MPSNNLabelsNode"; }
  bool is_source() const override { return true; }
};

// Called for every node of a training graph as it is made: the new node; the node whose gradient it
// is, null for an addition; the image whose gradient it makes; the gradient it reads.
using NNGradientHandler = std::function<void(
    const NNFilterNodePtr& gradient, const NNFilterNodePtr& inference,
    const NNImageNodePtr& inference_source, const NNImageNodePtr& gradient_source)>;

// Asked for a number at each encoding, given one of the source images and one of the destinations.
struct TRAINGRAPH_API NNNumberCallback {
  std::function<float(const ImagePtr& source, const ImagePtr& destination)> call;
  std::shared_ptr<const void> object;  // the user's, kept alive
  void visit_owned(OwnershipVisitor& visitor) const { visitor(object); }
};

// Images and states in, one image and perhaps states out.
class TRAINGRAPH_API NNFilterNode : public std::enable_shared_from_this<NNFilterNode> {
 public:
  virtual ~NNFilterNode();
  NNFilterNode(const NNFilterNode&) = delete;
  NNFilterNode& operator=(const NNFilterNode&) = delete;

  virtual const char* kind() const = 0;
  std::string label;
  std::string description() const;  // "MPSCNNConvolutionNode 'conv1'"
  // What the program made it of, to write it down; null for nodes that the library makes.
  std::shared_ptr<const void> made_of;

  NNImageNodePtr result_image();
  NNStateNodePtr result_state();  // the first; null where there is none
  std::vector<NNStateNodePtr> result_states();
  const std::vector<NNImageNodePtr>& sources() const { return sources_; }
  const std::vector<NNStateNodePtr>& source_states() const { return source_states_; }

  // What the program brings beside images; null for all but losses.
  virtual NNStateNodePtr input_state() { return nullptr; }

  // How the result's size follows from the source's.
  const PaddingPolicy& padding() const { return padding_; }
  void set_padding(PaddingPolicy value) { padding_ = std::move(value); }
  int padding_method() const { return padding_.method(); }
  void set_padding_method(int value) { padding_ = value; }

  // The one node that makes the gradient of the source, given that of the result; what else it
  // needs is taken from this node. Raises Unsupported where there is none, and InvalidArgument
  // where there are several and none of them is the main one.
  NNFilterNodePtr gradient_filter(const NNImageNodePtr& source_gradient);
  // One for each source, in their order.
  std::vector<NNFilterNodePtr> gradient_filters(const NNImageNodePtr& source_gradient);
  // As many gradients as results, which is one.
  NNFilterNodePtr gradient_filter(const std::vector<NNImageNodePtr>& source_gradients);
  std::vector<NNFilterNodePtr> gradient_filters(
      const std::vector<NNImageNodePtr>& source_gradients);

  // Nodes for the gradients of everything this node's result was made of, and additions where an
  // image has several readers. Without a source gradient it begins with this node's result. The
  // nodes whose results have no reader; raises InvalidArgument when there are none.
  std::vector<NNFilterNodePtr> training_graph(const NNImageNodePtr& source_gradient = nullptr,
                                              const NNGradientHandler& handler = nullptr);

  // The same for the node, its result and its states, which share their owners.
  virtual void visit_owned(OwnershipVisitor& visitor) const;

  // Whether the result is already the gradient of the source, so that a training graph begins with
  // it.
  virtual bool begins_gradients() const { return false; }
  // What a graph encodes for it.
  virtual std::unique_ptr<GraphStep> make_step(GraphPlan& plan) = 0;

 protected:
  explicit NNFilterNode(std::vector<NNImageNodePtr> sources,
                        std::vector<NNStateNodePtr> source_states = {});
  // Raises Unsupported.
  virtual std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient);
  // Whether gradient_filter() gives the first of several.
  virtual bool has_main_gradient() const { return false; }
  void own(NNStateNode& state) { state.owner_ = this; }
  // The pointer that owns it. Raises InvalidArgument where there is none.
  NNFilterNodePtr owner();
  void add_state(std::unique_ptr<NNStateNode> state);
  // Raises InvalidArgument unless there are images.
  void check_sources(const char* kind) const;
  [[noreturn]] void refuse(const std::string& text) const;

 private:
  const NNImageNodePtr& only(const std::vector<NNImageNodePtr>& gradients) const;

  std::vector<NNImageNodePtr> sources_;
  std::vector<NNStateNodePtr> source_states_;
  NNImageNode result_;
  std::vector<std::unique_ptr<NNStateNode>> states_;
  PaddingPolicy padding_;
};

// The incoming gradient, the forward source and the forward node's state. Has no gradient itself.
class TRAINGRAPH_API NNGradientFilterNode : public NNFilterNode {
 protected:
  using NNFilterNode::NNFilterNode;
  // With the forward node's label.
  NNGradientFilterNode(const char* kind, NNImageNodePtr source_gradient,
                       NNImageNodePtr source_image, NNStateNodePtr gradient_state,
                       const NNFilterNode& forward);
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr&) override;
};

}  // namespace traingraph::mps
