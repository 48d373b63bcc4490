// GraphPlan, the schedule of a graph of nodes, with GraphStep, the encoding of one node, and
// GraphEncoding, the images and states of one pass through the schedule.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <traingraph/mps/graph.h>

namespace traingraph::mps {

class GraphPlan;

// One encoding of a graph: what each place holds so far, and what is left to do.
class GraphEncoding {
 public:
  GraphEncoding(const NNGraph& graph, const GraphPlan& plan, CommandBuffer& buffer);

  // Where it goes. Raises InvalidArgument once a data source has committed the buffer.
  Recording& recording() const;

  const NNGraph& graph;
  const GraphPlan& plan;
  CommandBuffer& buffer;
  std::vector<ImageBatch> images;  // by place
  std::vector<StateBatch> states;  // by place
  // Every batch is one image of several, which costs less to keep count of.
  bool joined = false;
  // After the run.
  std::vector<std::function<void()>> completed;

  // Nothing for kNone.
  const ImageBatch& images_at(std::size_t place) const;
  const StateBatch& states_at(std::size_t place) const;
  // New images like `like`, as many as in the batch, in the place's own format.
  const ImageBatch& make(std::size_t place, ImageDescriptor like, const ImageBatch& batch);
  // These, with so many readings.
  const ImageBatch& make(std::size_t place, const ImageDescriptor& all, std::int64_t reads);
  // What an encoding returns of a place, image by image.
  ImageBatch handed_out(std::size_t place) const;
  // Where the states of a place live: null for permanent ones.
  CommandBuffer* owner_of_states(std::size_t place) const;
  // Gives the states of a place the readings that the graph will make.
  void set_state_reads(std::size_t place);
};

// What a graph encodes for one node; its kernel is made once.
class GraphStep {
 public:
  virtual ~GraphStep();
  // When all steps are made: how often this one reads what.
  virtual void count_reads(GraphPlan& plan) = 0;
  virtual void encode(GraphEncoding& e) = 0;
  // After encode(): lets a data source encode an update of what it holds, by the gradients in this
  // state; none for kNone.
  virtual std::size_t updated_state() const;
  virtual void update(GraphEncoding&) {}
  // Whether encode() records the same each time, but for numbers, over images of the same kind, and
  // has no other visible effect.
  virtual bool repeats() const { return true; }
  // Whether there are any now, where they may come and go.
  virtual bool has_biases() const { return false; }
  virtual void reload() {}
  virtual void visit_owned(OwnershipVisitor&) const {}
};

// The nodes that results need, in an order in which each follows what it reads, and the places of
// the images and states between them.
class GraphPlan {
 public:
  GraphPlan(const Device& device, const std::vector<NNImageNodePtr>& results,
            const std::vector<bool>& needed);

  struct ImagePlace {
    const NNImageNode* node;
    std::string name;
    std::int64_t reads = 0;
    std::int64_t handed_out = 0;
    bool is_result = false;
  };
  struct StatePlace {
    const NNStateNode* node;
    std::int64_t reads = 0;
    bool is_read = false;
    bool is_permanent = false;
  };
  const Device device;
  const std::vector<NNImageNodePtr> results;  // they keep all nodes
  const std::vector<bool> needed;             // by result
  std::vector<ImagePlace> images;
  std::vector<StatePlace> states;
  std::vector<std::shared_ptr<GraphStep>> steps;
  std::vector<std::size_t> source_images, source_states;  // places
  // What encodings hand out; kNone for a first result that is not needed.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t result = kNone;
  std::vector<std::size_t> intermediate_images, exported_states;
  // Whether a data source is given the states of each image apart.
  bool image_by_image = false;
  // Whether all steps repeat, and no state is handed out.
  bool repeats = true;

  // For nodes that make their steps.
  std::size_t image(const NNImageNode& node) const { return image_places_.at(&node); }
  std::size_t state(const NNStateNode& node) const { return state_places_.at(&node); }
  // Lets the image of one node be that of another.
  void join(const NNImageNode& node, const NNImageNode& with);
  // What makes the images of a place: the graph's for a result, else the node's.
  const ImageAllocatorPtr& allocator(const AllocatesImages& graph, std::size_t place) const;
  // Whether one of them is user-defined, which makes images one by one.
  bool has_own_allocators(const AllocatesImages& graph) const;
  GraphStep* step(const NNFilterNode* node) const;

  void visit_owned(OwnershipVisitor& visitor) const {
    visitor(results);
    visitor(steps);
  }

 private:
  void visit(const NNFilterNodePtr& last);
  void add_step(NNFilterNode& node);
  std::size_t add(const NNImageNode& node);

  std::map<const NNImageNode*, std::size_t> image_places_;
  std::map<const NNStateNode*, std::size_t> state_places_;
  std::map<const NNFilterNode*, GraphStep*> step_of_;
};

}  // namespace traingraph::mps
