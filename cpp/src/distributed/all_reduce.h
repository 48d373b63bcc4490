// Sums of arrays over ranks, added in the order of ranks: the same bits on all of them, in each
// run, and with each transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/ranks.h"

namespace traingraph::distributed {

// What a float may travel as.
struct BFloat16 {
  std::uint16_t bits;
};

// Prepared for arrays of fixed counts of elements of T, float or double, which travel as one, each
// element as a Sent. Sums of BFloat16 are added as float and rounded.
// Up to kWhole bytes each rank sends all of it to all others; above, each rank is sent its part,
// adds it and sends the sum: twice the bytes of the arrays, however many ranks there are.
// An array that travels alone, as it is, is not copied.
template <class T, class Sent = T>
class AllReduce {
 public:
  static constexpr std::size_t kWhole = 16384;

  // `graph`: whose sums these are, by its number among those of the ranks.
  AllReduce(std::shared_ptr<Ranks> ranks, int graph, std::vector<std::size_t> counts);
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Arrays and sums may be the same. `rows` of the global batch's `all_rows` are this rank's.
  // Raises DistributedError unless they add up to it over all ranks.
  void run(const T* const* arrays, T* const* sums, std::byte* workspace, std::int64_t rows,
           std::int64_t all_rows);

 private:
  struct Range {
    std::size_t first, last;
  };
  bool is_whole() const { return elements_ * sizeof(Sent) <= kWhole; }
  // Of the elements, the part that a rank adds.
  Range part_of(std::size_t rank) const;
  // In the workspace, what a rank has sent.
  Sent* room_of(std::byte* workspace, std::size_t rank) const {
    return reinterpret_cast<Sent*>(workspace + rank * pitch_);
  }
  // Adds the elements of all ranks, of which `from` are this rank's; `to` may be the same.
  void add(const Sent* from, Sent* to, std::byte* workspace, std::int64_t rows,
           std::int64_t all_rows);
  void check_rows(std::int64_t rows, std::int64_t all_rows) const;

  const std::shared_ptr<Ranks> ranks_;
  const int graph_;
  const std::vector<std::size_t> counts_;
  const std::size_t size_, own_;
  const bool is_packed_;
  std::size_t elements_ = 0;
  std::size_t pitch_ = 0;  // from room to room
  std::size_t workspace_bytes_ = 0;
  Messages messages_;
};

}  // namespace traingraph::distributed
