#pragma once

#include <string>
#include <vector>

#include <traingraph/export.h>

namespace traingraph {

struct ClassDescription;

// Where the time of one execution went: an entry per op that ran, in the order of running.
struct TRAINGRAPH_API Profile {
  struct TRAINGRAPH_API Entry {
    std::string layer;  // "layer 7 'conv1'"; empty for ops of no layer
    std::string phase;  // forward, gradient, update
    std::string op;
    double start = 0;  // seconds since the first op
    double seconds = 0;
    bool operator==(const Entry&) const = default;
    static const ClassDescription& class_description();
  };
  // The times of one layer's ops, summed. Ops that were fused count for the layer they joined.
  struct TRAINGRAPH_API Layer {
    std::string layer;
    double forward = 0;
    double gradient = 0;
    double update = 0;
    double seconds() const { return forward + gradient + update; }
    bool operator==(const Layer&) const = default;
    static const ClassDescription& class_description();
  };

  std::vector<Entry> entries;
  double seconds = 0;  // of the whole execution

  // In order of first appearance.
  std::vector<Layer> layers() const;
  // A table of layers(), times in microseconds.
  std::string table() const;
  // The entries as JSON for chrome://tracing and Perfetto.
  std::string chrome_trace() const;
  bool operator==(const Profile&) const = default;
  static const ClassDescription& class_description();
};

}  // namespace traingraph
