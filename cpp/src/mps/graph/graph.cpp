// NNGraph: encodes the steps of its plan for a batch, joins a batch to one image where its images
// are adjacent, and calls data sources after the run.
#include <traingraph/mps/graph.h>

#include <exception>
#include <mutex>
#include <utility>

#include <traingraph/errors.h>
#include <traingraph/mps/loss.h>
#include <traingraph/mutex.h>

#include "mps/graph/graph_replay.h"
#include "mps/nodes/graph_plan.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {
namespace {

std::vector<HandlePtr> image_handles(const GraphPlan& plan, const std::vector<std::size_t>& of) {
  std::vector<HandlePtr> handles;
  for (std::size_t place : of) handles.push_back(plan.images[place].node->handle);
  return handles;
}
std::vector<HandlePtr> state_handles(const GraphPlan& plan, const std::vector<std::size_t>& of) {
  std::vector<HandlePtr> handles;
  for (std::size_t place : of) handles.push_back(plan.states[place].node->handle);
  return handles;
}

// Images that are the rows of one object, as one image; null where they are not.
ImagePtr joined(const ImageBatch& batch) {
  const Image& first = *batch[0];
  if (batch.size() == 1) return batch[0];
  if (first.is_channels()) return nullptr;
  std::int64_t end = first.first();
  for (const ImagePtr& image : batch) {
    if (image->is_temporary() || image->storage() != first.storage() || image->first() != end ||
        image->is_channels()) {
      return nullptr;
    }
    end += image->descriptor().number_of_images;
  }
  ImageDescriptor all = first.descriptor();
  all.number_of_images = end - first.first();
  return std::make_shared<Image>(first.device(), all, first.storage(), first.first(), false);
}

// The same of labels.
StatePtr joined(const StateBatch& batch) {
  ImageBatch losses, labels, weights;
  for (const StatePtr& state : batch) {
    const auto* one = dynamic_cast<const CNNLossLabels*>(state.get());
    if (one == nullptr) return nullptr;
    losses.push_back(one->loss_image());
    labels.push_back(one->labels_image());
    if (one->weights_image() != nullptr) weights.push_back(one->weights_image());
  }
  if (labels.empty() || (!weights.empty() && weights.size() != labels.size())) return nullptr;
  const ImagePtr loss = joined(losses), truth = joined(labels);
  const ImagePtr weight = weights.empty() ? nullptr : joined(weights);
  if (loss == nullptr || truth == nullptr || (weight == nullptr && !weights.empty())) {
    return nullptr;
  }
  return std::make_shared<CNNLossLabels>(loss, truth, weight);
}

// Each batch as one object, or nothing where one of them cannot be.
template <class Batch>
std::vector<Batch> joined_batches(const std::vector<Batch>& batches) {
  std::vector<Batch> result;
  for (const Batch& batch : batches) {
    auto one = joined(batch);
    if (one == nullptr) return {};
    result.push_back({std::move(one)});
  }
  return result;
}

}  // namespace

// Calls to data sources after a run: what they raise waits for the next encoding.
struct NNGraph::Failure {
  Mutex mutex;
  std::exception_ptr error;

  void set(std::exception_ptr with) {
    const std::lock_guard lock(mutex);
    if (error == nullptr) error = std::move(with);
  }
  void raise() {
    std::exception_ptr now;
    {
      const std::lock_guard lock(mutex);
      std::swap(now, error);
    }
    if (now != nullptr) std::rethrow_exception(now);
  }
};

NNGraph::NNGraph(const Device& device, const std::vector<NNImageNodePtr>& results,
                 const std::vector<bool>& results_are_needed)
    : Kernel(device),
      plan_(std::make_unique<GraphPlan>(device, results, results_are_needed)),
      failure_(std::make_shared<Failure>()) {}
NNGraph::~NNGraph() = default;

OperationPtr NNGraph::make_operation() const { return nullptr; }  // its nodes' kernels have theirs

const std::vector<NNImageNodePtr>& NNGraph::results() const { return plan_->results; }
const std::vector<bool>& NNGraph::results_are_needed() const { return plan_->needed; }
std::vector<HandlePtr> NNGraph::source_image_handles() const {
  return image_handles(*plan_, plan_->source_images);
}
std::vector<HandlePtr> NNGraph::source_state_handles() const {
  return state_handles(*plan_, plan_->source_states);
}
std::vector<HandlePtr> NNGraph::intermediate_image_handles() const {
  return image_handles(*plan_, plan_->intermediate_images);
}
std::vector<HandlePtr> NNGraph::result_state_handles() const {
  return state_handles(*plan_, plan_->exported_states);
}
HandlePtr NNGraph::result_handle() const {
  return plan_->result == GraphPlan::kNone ? nullptr : plan_->images[plan_->result].node->handle;
}
bool NNGraph::result_image_is_needed() const { return plan_->result != GraphPlan::kNone; }

void NNGraph::visit_owned(OwnershipVisitor& visitor) const {
  visitor(image_allocator());
  plan_->visit_owned(visitor);
  if (replay_ != nullptr) replay_->visit_owned(visitor);
}

void NNGraph::reload_from_data_sources() {
  for (const auto& step : plan_->steps) step->reload();
  replay_ = nullptr;
}

// What can be said before the first kernel is encoded.
void NNGraph::check_sources(const std::vector<ImageBatch>& images,
                            const std::vector<StateBatch>& states) const {
  const std::vector<std::size_t>& expected = plan_->source_images;
  if (images.size() != expected.size()) {
    std::string names;
    for (std::size_t place : expected) names += " " + plan_->images[place].name + ",";
    refuse("expected a batch for each of" + names + " but got " + std::to_string(images.size()));
  }
  if (states.size() != plan_->source_states.size()) {
    std::string names;
    for (std::size_t place : plan_->source_states) {
      names += " the labels of " + plan_->states[place].node->owner()->description() + ",";
    }
    refuse((names.empty() ? "expected no states" : "expected a batch for each of" + names) +
           " but got " + std::to_string(states.size()));
  }
  for (std::size_t k = 0; k < images.size(); ++k) {
    check_batch(images[k], ("source images for " + plan_->images[expected[k]].name).c_str());
    if (images[k].size() == images[0].size()) continue;
    refuse_shape("expected " + std::to_string(images[0].size()) + " source images for " +
                 plan_->images[expected[k]].name + " but got " + std::to_string(images[k].size()));
  }
}

NNGraph::Results NNGraph::encode_batch(CommandBuffer& buffer,
                                       const std::vector<ImageBatch>& source_images,
                                       const std::vector<StateBatch>& source_states) {
  Recording& recording = this->recording(buffer);
  failure_->raise();
  check_sources(source_images, source_states);
  GraphEncoding e(*this, *plan_, buffer);
  const std::vector<ImageBatch> images = joined_batches(source_images);
  const std::vector<StateBatch> states = joined_batches(source_states);
  e.joined = !plan_->image_by_image && plan_->exported_states.empty() &&
             !plan_->has_own_allocators(*this) && images.size() == source_images.size() &&
             states.size() == source_states.size();
  for (std::size_t k = 0; k < source_images.size(); ++k) {
    const std::size_t place = plan_->source_images[k];
    e.images[place] = e.joined ? images[k] : source_images[k];
    // However often the nodes read it, it counts once. An incoming gradient may be a result as
    // well.
    const std::int64_t more = plan_->images[place].reads + plan_->images[place].handed_out - 1;
    if (more > 0) increment_read_count(source_images[k], more);
  }
  for (std::size_t k = 0; k < source_states.size(); ++k) {
    e.states[plan_->source_states[k]] = e.joined ? states[k] : source_states[k];
  }
  const Recording::Mark before = recording.mark();
  try {
    // Of its own while it encodes: a data source may encode the graph itself.
    std::unique_ptr<GraphReplay> replay = std::move(replay_);
    if (replay == nullptr) replay = std::make_unique<GraphReplay>();
    replay->encode(e);
    replay_ = std::move(replay);
  } catch (...) {
    // A data source may have committed the buffer.
    if (buffer.recording() == &recording) recording.roll_back(before);
    throw;
  }
  if (!e.completed.empty()) {
    buffer.add_completed_handler(
        [calls = std::move(e.completed), failure = failure_](const CommandBufferPtr& done) {
          if (done->status() == CommandBufferStatus::kError) return;
          for (const auto& call : calls) {
            try {
              call();
            } catch (...) {
              failure->set(std::current_exception());
            }
          }
        });
  }
  Results results;
  if (plan_->result != GraphPlan::kNone) results.images = e.handed_out(plan_->result);
  for (std::size_t place : plan_->intermediate_images) {
    results.intermediate_images.push_back(e.handed_out(place));
  }
  for (std::size_t place : plan_->exported_states) results.states.push_back(e.states[place]);
  return results;
}

ImagePtr NNGraph::execute_async(const ImageBatch& source_images, CompletionHandler handler) {
  std::vector<ImageBatch> batches;
  for (const ImagePtr& image : source_images) batches.push_back({image});
  const CommandBufferPtr buffer = device().make_command_queue()->make_command_buffer();
  // A user-defined allocator stays in force.
  const ImageAllocatorPtr before = image_allocator();
  if (makes_temporary_images()) set_makes_temporary_images(false);
  Results results;
  try {
    results = encode_batch(*buffer, batches);
  } catch (...) {
    set_image_allocator(before);
    throw;
  }
  set_image_allocator(before);
  const ImagePtr result = results.images.empty() ? nullptr : results.images[0];
  if (handler != nullptr) {
    buffer->add_completed_handler(
        [result, handler = std::move(handler)](const CommandBufferPtr& done) {
          handler(done->error() == nullptr ? result : nullptr, done->error());
        });
  }
  buffer->commit();
  return result;
}

namespace {

void check_index(std::int64_t index, std::size_t count, const char* what) {
  if (index >= 0 && index < static_cast<std::int64_t>(count)) return;
  throw InvalidArgument("[MPSNNGraph] expected the index of one of " + std::to_string(count) +
                        " source " + what + " but got " + std::to_string(index));
}

}  // namespace

// However often the nodes read it, it counts once.
std::int64_t NNGraph::read_count_for_source_image(std::int64_t index) const {
  check_index(index, plan_->source_images.size(), "images");
  return 1;
}

std::int64_t NNGraph::read_count_for_source_state(std::int64_t index) const {
  check_index(index, plan_->source_states.size(), "states");
  return plan_->states[plan_->source_states[static_cast<std::size_t>(index)]].reads;
}

}  // namespace traingraph::mps
