// GraphPlan orders nodes topologically and counts the readings of each image and state;
// GraphEncoding allocates them for one encoding.
#include "mps/nodes/graph_plan.h"

#include <algorithm>
#include <set>

#include <traingraph/errors.h>

#include "mps/images/image_allocator.h"

namespace traingraph::mps {

GraphStep::~GraphStep() = default;
std::size_t GraphStep::updated_state() const { return GraphPlan::kNone; }

GraphPlan::GraphPlan(const Device& device_in, const std::vector<NNImageNodePtr>& results_in,
                     const std::vector<bool>& needed_in)
    : device(device_in), results(results_in), needed(needed_in) {
  const auto refuse = [](const std::string& text) {
    throw InvalidArgument("[MPSNNGraph] " + text);
  };
  if (results.empty()) refuse("expected one or more result images but got none");
  if (results.size() != needed.size()) {
    refuse("expected whether each of " + std::to_string(results.size()) +
           " results is needed but got " + std::to_string(needed.size()));
  }
  std::set<const NNImageNode*> seen;
  for (const NNImageNodePtr& image : results) {
    if (image == nullptr) refuse("expected result images but got none");
    if (image->producer() == nullptr) {
      refuse("expected a result that a node makes but got " + image->description() +
             ", which no node makes");
    }
    if (!seen.insert(image.get()).second) {
      refuse("expected each result once but got " + image->description() + " twice");
    }
    visit(image->producer()->shared_from_this());
  }
  for (std::size_t place = 0; place < states.size(); ++place) {
    if (!states[place].node->export_from_graph || states[place].node->is_source()) continue;
    states[place].is_read = true;
    ++states[place].reads;
    exported_states.push_back(place);
  }
  for (const auto& step : steps) step->count_reads(*this);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!needed[k]) continue;
    const std::size_t place = this->image(*results[k]);
    images[place].is_result = true;
    ++images[place].handed_out;
    if (k == 0) {
      result = place;
    } else {
      intermediate_images.push_back(place);
    }
  }
  for (std::size_t place = 0; place < images.size(); ++place) {
    const NNImageNode& node = *images[place].node;
    if (!node.export_from_graph || node.producer() == nullptr) continue;
    ++images[place].handed_out;
    intermediate_images.push_back(place);
  }
  repeats = exported_states.empty() &&
            std::ranges::all_of(steps, [](const auto& step) { return step->repeats(); });
}

std::size_t GraphPlan::add(const NNImageNode& node) {
  const std::size_t place = images.size();
  images.push_back({&node, node.description()});
  image_places_[&node] = place;
  return place;
}

void GraphPlan::join(const NNImageNode& node, const NNImageNode& with) {
  image_places_[&node] = image(with);
}

const ImageAllocatorPtr& GraphPlan::allocator(const AllocatesImages& graph,
                                              std::size_t place) const {
  const ImagePlace& at = images[place];
  const bool by_graph = at.is_result && !graph.makes_temporary_images();
  return by_graph && (graph.has_own_allocator() || !at.node->export_from_graph ||
                      !at.node->makes_temporary_images())
             ? graph.image_allocator()
             : at.node->image_allocator();
}

bool GraphPlan::has_own_allocators(const AllocatesImages& graph) const {
  return graph.has_own_allocator() || std::ranges::any_of(images, [](const ImagePlace& at) {
           return at.node->has_own_allocator();
         });
}

GraphStep* GraphPlan::step(const NNFilterNode* node) const { return step_of_.at(node); }

void GraphPlan::visit(const NNFilterNodePtr& last) {
  struct Visit {
    NNFilterNodePtr node;
    std::size_t next = 0;  // of its sources, and then of its states
  };
  // A list of its own: graphs may be deeper than the stack.
  std::vector<Visit> open{{last}};
  while (!open.empty()) {
    const NNFilterNodePtr node = open.back().node;
    if (step_of_.count(node.get()) != 0) {
      open.pop_back();
      continue;
    }
    const std::size_t next = open.back().next++;
    const std::size_t source_count = node->sources().size();
    if (next < source_count) {
      const NNImageNodePtr source = node->sources()[next];
      if (source->producer() != nullptr) {
        open.push_back({source->producer()->shared_from_this()});
      } else if (image_places_.count(source.get()) == 0) {
        source_images.push_back(add(*source));
      }
    } else if (next - source_count < node->source_states().size()) {
      const NNStateNodePtr state = node->source_states()[next - source_count];
      open.push_back({state->owner()->shared_from_this()});
    } else {
      add_step(*node);
    }
  }
}

// Of a node whose sources and states have their places.
void GraphPlan::add_step(NNFilterNode& node) {
  const auto add_state = [this](const NNStateNode& state) {
    state_places_[&state] = states.size();
    states.push_back({&state});
    return states.size() - 1;
  };
  for (const NNStateNodePtr& state : node.source_states()) {
    states[this->state(*state)].is_read = true;
  }
  add(*node.result_image());
  for (const NNStateNodePtr& state : node.result_states()) add_state(*state);
  if (const NNStateNodePtr labels = node.input_state()) {
    source_states.push_back(add_state(*labels));
  }
  steps.push_back(node.make_step(*this));
  step_of_[&node] = steps.back().get();
}

// --- one encoding --------------------------------------------------------------------------------

GraphEncoding::GraphEncoding(const NNGraph& graph_in, const GraphPlan& plan_in,
                             CommandBuffer& buffer_in)
    : graph(graph_in),
      plan(plan_in),
      buffer(buffer_in),
      images(plan_in.images.size()),
      states(plan_in.states.size()) {}

Recording& GraphEncoding::recording() const { return graph.recording(buffer); }

const ImageBatch& GraphEncoding::images_at(std::size_t place) const {
  static const ImageBatch none;
  return place == GraphPlan::kNone ? none : images[place];
}
const StateBatch& GraphEncoding::states_at(std::size_t place) const {
  static const StateBatch none;
  return place == GraphPlan::kNone ? none : states[place];
}

const ImageBatch& GraphEncoding::make(std::size_t place, ImageDescriptor like,
                                      const ImageBatch& batch) {
  const GraphPlan::ImagePlace& at = plan.images[place];
  like.number_of_images =
      static_cast<std::int64_t>(batch.size()) * batch[0]->descriptor().number_of_images;
  like.channel_format = at.node->format == ChannelFormat::kNone ? graph.format : at.node->format;
  return make(place, like, at.reads + at.handed_out);
}

const ImageBatch& GraphEncoding::make(std::size_t place, const ImageDescriptor& descriptor,
                                      std::int64_t reads) {
  ImageBatch& made = images[place];
  made = allocated(buffer, descriptor, *plan.allocator(graph, place), &graph, !joined);
  for (const ImagePtr& image : made) {
    if (reads > 1) image->set_read_count(reads);
  }
  return made;
}

ImageBatch GraphEncoding::handed_out(std::size_t place) const {
  const ImageBatch& batch = images[place];
  if (!joined || batch[0]->descriptor().number_of_images == 1) return batch;
  const ImageBatch each = batch[0]->batch_representation();
  increment_read_count(each, batch[0]->read_count() - 1);
  return each;
}

CommandBuffer* GraphEncoding::owner_of_states(std::size_t place) const {
  const GraphPlan::StatePlace& at = plan.states[place];
  const bool permanent =
      at.is_permanent || (at.node->export_from_graph && !graph.output_state_is_temporary);
  return permanent ? nullptr : &buffer;
}

void GraphEncoding::set_state_reads(std::size_t place) {
  const std::int64_t reads = plan.states[place].reads;
  if (reads > 1) increment_read_count(states[place], reads - 1);
}

}  // namespace traingraph::mps
