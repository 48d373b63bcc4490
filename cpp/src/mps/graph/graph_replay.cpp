// GraphReplay: the second encoding of one kind of batch is kept as excerpts of the recording, which
// later encodings append over their own storages.
#include "mps/graph/graph_replay.h"

#include <algorithm>
#include <utility>

#include <traingraph/mps/loss.h>

namespace traingraph::mps {
namespace {

std::uint64_t word(std::int64_t value) { return static_cast<std::uint64_t>(value); }

void encode_steps(GraphEncoding& e) {
  for (const auto& step : e.plan.steps) {
    step->encode(e);
    if (step->updated_state() != GraphPlan::kNone) step->update(e);
  }
}

// The results that an encoding makes, each once.
std::vector<std::size_t> made_results(const GraphPlan& plan) {
  std::vector<std::size_t> places = plan.intermediate_images;
  if (plan.result != GraphPlan::kNone) places.push_back(plan.result);
  std::ranges::sort(places);
  const auto [end, last] = std::ranges::unique(places);
  places.erase(end, last);
  std::erase_if(places, [&](std::size_t place) {
    return std::ranges::find(plan.source_images, place) != plan.source_images.end();
  });
  return places;
}

}  // namespace

void GraphReplay::encode(GraphEncoding& e) {
  std::swap(kind_, last_kind_);
  find_kind(e);
  const bool is_new = kind_ != last_kind_;
  if (is_new) is_noted_ = has_numbers_ = false;
  if (is_new || kind_.empty() || has_numbers_) {
    encode_steps(e);
  } else if (!is_noted_ || !is_current()) {
    note(e);
  } else if (!repeat(e)) {
    encode_steps(e);
  }
  brought_.clear();
}

// Everything that the recording depends on beside the plan: properties that may have changed,
// biases that come with an update, and the images.
void GraphReplay::find_kind(const GraphEncoding& e) {
  kind_.clear();
  // What lives on another part of its buffer would have to be found among what stays.
  if (!e.plan.repeats || dynamic_cast<ContinuingCommandBuffer*>(&e.buffer) != nullptr) return;
  if (e.plan.has_own_allocators(e.graph)) return;
  const auto add_properties = [this](ChannelFormat format, bool first, bool second) {
    kind_.push_back(static_cast<std::uint64_t>(format) << 2 | (first ? 2 : 0) | (second ? 1 : 0));
  };
  kind_.push_back(e.joined ? 1 : 0);
  add_properties(e.graph.format, e.graph.makes_temporary_images(),
                 e.graph.output_state_is_temporary);
  for (const GraphPlan::ImagePlace& at : e.plan.images) {
    add_properties(at.node->format, at.node->export_from_graph, at.node->makes_temporary_images());
  }
  for (const GraphPlan::StatePlace& at : e.plan.states) {
    add_properties({}, at.node->export_from_graph, false);
  }
  for (const auto& step : e.plan.steps) kind_.push_back(step->has_biases() ? 1 : 0);
  const auto add_all = [&] {
    for (std::size_t place : e.plan.source_images) {
      kind_.push_back(e.images[place].size());
      for (const ImagePtr& image : e.images[place]) {
        if (!add(e, *image)) return false;
      }
    }
    for (std::size_t place : e.plan.source_states) {
      kind_.push_back(e.states[place].size());
      for (const StatePtr& state : e.states[place]) {
        const auto* labels = dynamic_cast<const CNNLossLabels*>(state.get());
        if (labels == nullptr) return false;
        kind_.push_back(labels->weights_image() == nullptr ? 0 : 1);
        for (const auto* image :
             {&labels->loss_image(), &labels->labels_image(), &labels->weights_image()}) {
          if (*image != nullptr && !add(e, **image)) return false;
        }
      }
    }
    return true;
  };
  if (!add_all()) kind_.clear();
}

// False for what is read a limited number of times, and for what the kernels will refuse.
bool GraphReplay::add(const GraphEncoding& e, const Image& image) {
  if (image.is_temporary() || !(image.device() == e.plan.device)) return false;
  const auto known = std::ranges::find_if(
      brought_, [&](const StoragePtr* storage) { return *storage == image.storage(); });
  const auto place = known - brought_.begin();
  if (known == brought_.end()) brought_.push_back(&image.storage());
  const ImageDescriptor& d = image.descriptor();
  kind_.insert(kind_.end(),
               {word(place), word(image.first()), word(image.first_channel()),
                word(image.storage()->shape[1]), word(d.number_of_images), word(d.feature_channels),
                word(d.height), word(d.width), static_cast<std::uint64_t>(d.channel_format)});
  return true;
}

void GraphReplay::note(GraphEncoding& e) {
  stretches_.clear();
  std::vector<StoragePtr> storages;
  Recording& recording = e.recording();
  Recording::Mark from = recording.mark();
  const auto end_stretch = [&] {
    const Recording::Mark to = e.recording().mark();
    has_numbers_ = has_numbers_ || to.numbers != from.numbers;
    stretches_.emplace_back().excerpt = recording.excerpt(from, to, storages);
  };
  for (const auto& step : e.plan.steps) {
    step->encode(e);
    const std::size_t place = step->updated_state();
    if (place == GraphPlan::kNone) continue;
    end_stretch();
    Stretch& stretch = stretches_.back();
    stretch.step = step.get();
    stretch.place = place;
    stretch.state = e.states[place][0];
    stretch.readings = stretch.state->read_count();
    step->update(e);
    from = e.recording().mark();
  }
  end_stretch();
  results_.clear();
  for (std::size_t place : made_results(e.plan)) {
    ImageDescriptor all = e.images[place][0]->descriptor();
    all.number_of_images *= static_cast<std::int64_t>(e.images[place].size());
    results_.push_back({place, all});
    brought_.push_back(&e.images[place][0]->storage());
  }
  named_.clear();
  for (StoragePtr& storage : storages) {
    const auto known = std::ranges::find_if(
        brought_, [&](const StoragePtr* brought) { return *brought == storage; });
    if (known == brought_.end()) {
      named_.push_back({std::move(storage)});
    } else {
      named_.push_back({nullptr, static_cast<std::size_t>(known - brought_.begin())});
    }
  }
  is_noted_ = true;
}

// Not when something was kept for another part of a buffer, where it has bytes.
bool GraphReplay::is_current() const {
  return std::ranges::none_of(
      named_, [](const Named& named) { return named.own != nullptr && named.own->kept; });
}

bool GraphReplay::repeat(GraphEncoding& e) {
  for (const Stretch& stretch : stretches_) {
    if (stretch.state == nullptr) continue;
    if (stretch.state.use_count() > 1 || !stretch.state->renew(e.buffer, stretch.readings)) {
      return false;
    }
  }
  for (const Result& result : results_) {
    const ImageBatch& made =
        e.make(result.place, result.all, e.plan.images[result.place].handed_out);
    made[0]->storage()->written = true;
    brought_.push_back(&made[0]->storage());
  }
  std::vector<const StoragePtr*> storages;
  storages.reserve(named_.size());
  for (const Named& named : named_) {
    storages.push_back(named.own == nullptr ? brought_[named.brought] : &named.own);
  }
  for (const Stretch& stretch : stretches_) {
    e.recording().append(stretch.excerpt, storages);
    if (stretch.step == nullptr) continue;
    e.states[stretch.place] = {stretch.state};
    stretch.step->update(e);
  }
  return true;
}

}  // namespace traingraph::mps
