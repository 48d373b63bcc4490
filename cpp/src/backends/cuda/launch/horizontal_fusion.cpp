// Finds ops of a graph that can share a kernel, and fuses them in runs where their order allows it.
#include "backends/cuda/launch/horizontal_fusion.h"

#include <algorithm>
#include <iterator>
#include <typeindex>

#include "backends/cuda/products/cluster_split_k.h"

namespace traingraph::cuda {
namespace {

std::size_t position_of(const std::vector<Work>& run, ir::NodeId node) {
  const auto is = [&](const Work& work) { return work.node == node; };
  return static_cast<std::size_t>(std::find_if(run.begin(), run.end(), is) - run.begin());
}

// Whether work with these accesses may move from one position to another. Work at `own` positions
// moves along and does not count.
bool may_move(const std::vector<Work>& run, const std::vector<Access>& accesses, std::size_t from,
              std::size_t to, const std::vector<std::size_t>& own, Pointers pointers) {
  const auto [first, last] = std::minmax(from, to);
  for (std::size_t k = first; k <= last; ++k) {
    const bool is_own = std::find(own.begin(), own.end(), k) != own.end();
    if (!is_own && conflict(accesses, run[k].accesses, pointers)) return false;
  }
  return true;
}

// Replaces the work at `positions` by this kernel, at the first of them.
void replace(std::vector<Work>& run, const std::vector<std::size_t>& positions,
             const Kernel* kernel, std::vector<Access> accesses) {
  for (std::size_t k : positions) {
    run[k].kernel = nullptr;
    run[k].accesses.clear();
  }
  run[positions.front()].kernel = kernel;
  run[positions.front()].accesses = std::move(accesses);
}

// Whether one writes memory of another value that the other one accesses.
bool share_memory(const std::vector<Access>& one, const std::vector<Access>& other,
                  Pointers pointers) {
  return std::any_of(one.begin(), one.end(), [&](const Access& x) {
    return std::any_of(other.begin(), other.end(), [&](const Access& y) {
      return x.address != y.address && conflict({x}, {y}, pointers);
    });
  });
}

void fuse_group(std::vector<Work>& run, const FusedGroup& group, Pointers pointers) {
  std::vector<std::size_t> positions;
  std::vector<std::vector<Access>> touched;  // by node, without what is not materialized
  for (ir::NodeId node : group.nodes) {
    positions.push_back(position_of(run, node));
    if (positions.back() == run.size() || run[positions.back()].kernel == nullptr) return;
    touched.push_back(run[positions.back()].accesses);
    std::erase_if(touched.back(), [&](const Access& access) {
      return group.not_materialized != ir::kNone &&
             access.address == static_cast<std::size_t>(group.not_materialized);
    });
  }
  std::vector<Access> all;
  for (std::size_t k = 0; k < positions.size(); ++k) {
    if (!may_move(run, touched[k], positions[k], positions.front(), positions, pointers)) return;
    for (std::size_t other = 0; other < k; ++other) {
      if (share_memory(touched[k], touched[other], pointers)) return;
    }
    all.insert(all.end(), touched[k].begin(), touched[k].end());
  }
  replace(run, positions, group.kernel.get(), std::move(all));
}

// The positions of a candidate's nodes in a run.
struct Placed {
  const UpdateCandidate* candidate;
  std::size_t product, update;

  std::type_index type() const { return typeid(*candidate->part); }
};

// The accesses of a product without its gradient: the two operands.
std::vector<Access> operands_of(const Work& product) {
  return {product.accesses.begin(), product.accesses.begin() + 2};
}

bool may_wait(const std::vector<Work>& run, const Placed& one, std::size_t until,
              Pointers pointers) {
  const std::vector<std::size_t> own = {one.product, one.update};
  return may_move(run, operands_of(run[one.product]), one.product, until, own, pointers) &&
         may_move(run, run[one.update].accesses, one.update, until, own, pointers);
}

// The candidates of one part type that may wait for the last of them, which is placed.front().
std::vector<Placed> group_of(const std::vector<Work>& run, const std::vector<Placed>& placed,
                             Pointers pointers) {
  const Placed& last = placed.front();
  std::vector<Placed> group;
  for (const Placed& one : placed) {
    const bool leads = one.candidate == last.candidate;
    if (group.empty() != leads || group.size() == kMostUpdates || one.type() != last.type())
      continue;
    if (may_wait(run, one, last.update, pointers)) group.push_back(one);
  }
  return group;
}

std::unique_ptr<Kernel> fuse_updates(std::vector<Work>& run, const std::vector<Placed>& group) {
  std::vector<const UpdatePart*> parts;
  std::vector<std::size_t> positions;
  std::vector<Access> accesses;
  for (const Placed& one : group) {
    parts.push_back(one.candidate->part.get());
    positions.insert(positions.end(), {one.update, one.product});
    const std::vector<Access> operands = operands_of(run[one.product]);
    accesses.insert(accesses.end(), operands.begin(), operands.end());
    const std::vector<Access>& updated = run[one.update].accesses;
    accesses.insert(accesses.end(), updated.begin(), updated.end());
  }
  std::unique_ptr<Kernel> kernel = make_fused_update(parts);
  replace(run, positions, kernel.get(), std::move(accesses));
  return kernel;
}

}  // namespace

HorizontalFusion::HorizontalFusion(const ir::Graph& graph, const std::vector<Work>& by_node,
                                   const Context& context)
    : groups_(find_masked_products(graph, context)) {
  const auto readers = ir::consumers(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& product = graph.nodes[n];
    if (product.op != ir::Op::matmul || by_node[n].kernel == nullptr) continue;
    const ir::ValueId gradient = product.outputs[0];
    const auto& read_by = readers[static_cast<std::size_t>(gradient)];
    if (read_by.size() != 1 || graph.value(gradient).keep) continue;
    std::unique_ptr<UpdatePart> part =
        make_update_part(graph, product, graph.node(read_by[0]), context);
    if (part == nullptr) continue;
    updates_.push_back({static_cast<ir::NodeId>(n), read_by[0], std::move(part)});
  }
}

std::vector<Work> HorizontalFusion::fuse(std::vector<Work> run, Pointers pointers,
                                         std::vector<std::unique_ptr<Kernel>>& kernels) const {
  for (const FusedGroup& group : groups_) fuse_group(run, group, pointers);
  std::vector<Placed> rest;
  for (const UpdateCandidate& candidate : updates_) {
    const Placed placed{&candidate, position_of(run, candidate.product),
                        position_of(run, candidate.update)};
    if (std::max(placed.product, placed.update) == run.size()) continue;
    if (run[placed.product].kernel != nullptr) rest.push_back(placed);
  }
  std::sort(rest.begin(), rest.end(),
            [](const Placed& x, const Placed& y) { return x.update > y.update; });
  while (!rest.empty()) {
    const std::vector<Placed> group = group_of(run, rest, pointers);
    const auto is_done = [&](const Placed& one) {
      return one.candidate == rest.front().candidate ||
             std::any_of(group.begin(), group.end(),
                         [&](const Placed& other) { return other.candidate == one.candidate; });
    };
    std::vector<Placed> others;
    std::remove_copy_if(rest.begin(), rest.end(), std::back_inserter(others), is_done);
    if (!group.empty()) kernels.push_back(fuse_updates(run, group));
    rest = std::move(others);
  }
  std::erase_if(run, [](const Work& work) { return work.kernel == nullptr; });
  return run;
}

}  // namespace traingraph::cuda
