// Times of a run by layer and op, as a table and as a Chrome trace.
#include "graph/run/profile.h"

#include <algorithm>
#include <iomanip>

#include <traingraph/message_text.h>

#include "ir/number_text.h"
#include "runtime/files/json_text.h"

namespace traingraph {

std::shared_ptr<const Profile> profile_of(const Program& program, Run run,
                                          const std::vector<double>& seconds, double total) {
  auto profile = std::make_shared<Profile>();
  profile->seconds = total;
  const auto [first, last] = program.range(run);
  double start = 0;
  for (std::size_t k = first; k < last; ++k) {
    const ir::NodeId id = program.variant(run).schedule.order[k];
    const ir::Node& node = program.graph.node(id);
    const std::string layer =
        node.layer == ir::kNone ? "" : program.graph.layers[static_cast<std::size_t>(node.layer)];
    const double taken = seconds[static_cast<std::size_t>(id)];
    profile->entries.push_back({layer, ir::name(node.phase), ir::name(node.op), start, taken});
    start += taken;
  }
  return profile;
}

std::vector<Profile::Layer> Profile::layers() const {
  std::vector<Layer> result;
  for (const Entry& entry : entries) {
    auto found = std::find_if(result.begin(), result.end(),
                              [&](const Layer& known) { return known.layer == entry.layer; });
    if (found == result.end()) {
      result.push_back({entry.layer});
      found = result.end() - 1;
    }
    double& sum = entry.phase == "forward"    ? found->forward
                  : entry.phase == "gradient" ? found->gradient
                                              : found->update;
    sum += entry.seconds;
  }
  return result;
}

std::string Profile::table() const {
  const std::vector<Layer> rows = layers();
  std::size_t width = 24;
  for (const Layer& row : rows) {
    width = std::max(width, character_count(shortened(row.layer, kMostShown)));
  }
  PlainStream text;
  text << std::fixed << std::setprecision(1);
  auto line = [&](const std::string& name, auto forward, auto gradient, auto update, auto sum) {
    text << padded(shortened(name, kMostShown), width + 2) << std::right;
    text << std::setw(12) << forward << std::setw(12) << gradient << std::setw(12) << update
         << std::setw(12) << sum << "\n";
  };
  line("microseconds", "forward", "gradient", "update", "sum");
  Layer total{"all layers"};
  for (const Layer& row : rows) {
    line(row.layer.empty() ? "(no layer)" : row.layer, row.forward * 1e6, row.gradient * 1e6,
         row.update * 1e6, row.seconds() * 1e6);
    total.forward += row.forward;
    total.gradient += row.gradient;
    total.update += row.update;
  }
  line(total.layer, total.forward * 1e6, total.gradient * 1e6, total.update * 1e6,
       total.seconds() * 1e6);
  line("execution", "", "", "", seconds * 1e6);
  return text.str();
}

std::string Profile::chrome_trace() const {
  PlainStream text;
  text << std::fixed << std::setprecision(3);
  text << "{\"traceEvents\": [";
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const Entry& entry = entries[k];
    // One row of the picture per phase.
    const int row = entry.phase == "forward" ? 1 : entry.phase == "gradient" ? 2 : 3;
    text << (k == 0 ? "\n" : ",\n") << "  {\"name\": " << json_text(entry.op)
         << ", \"cat\": " << json_text(entry.phase)
         << ", \"ph\": \"X\", \"pid\": 1, \"tid\": " << row << ", \"ts\": " << entry.start * 1e6
         << ", \"dur\": " << entry.seconds * 1e6
         << ", \"args\": {\"layer\": " << json_text(entry.layer) << "}}";
  }
  text << "\n], \"displayTimeUnit\": \"ns\"}\n";
  return text.str();
}

}  // namespace traingraph
