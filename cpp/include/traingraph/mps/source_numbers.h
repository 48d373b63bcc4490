// SourceNumbers: an array that a data source hands over, with its size and type.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

#include <traingraph/types.h>

namespace traingraph::mps {

// Numbers one after another. Without an owner they stay readable until the source's purge().
struct SourceNumbers {
  // None.
  SourceNumbers() = default;
  SourceNumbers(std::nullptr_t) {}
  // Of a vector, a span or an array of float or double; none where it is empty.
  template <class Range>
    requires std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
                 std::ranges::borrowed_range<Range> &&
                 (std::same_as<std::ranges::range_value_t<Range>, float> ||
                  std::same_as<std::ranges::range_value_t<Range>, double>)
  SourceNumbers(Range&& numbers)
      : data(std::ranges::empty(numbers) ? nullptr : std::ranges::data(numbers)),
        count(std::ranges::size(numbers)),
        data_type(std::same_as<std::ranges::range_value_t<Range>, float> ? DataType::kFloat32
                                                                         : DataType::kFloat64) {}
  SourceNumbers(const void* data_in, std::size_t count_in, DataType type,
                std::shared_ptr<const void> owner_in = nullptr)
      : data(data_in), count(count_in), data_type(type), owner(std::move(owner_in)) {}

  const void* data = nullptr;
  std::size_t count = 0;
  DataType data_type = DataType::kFloat32;
  std::shared_ptr<const void> owner;
};

}  // namespace traingraph::mps
