#include "graph/samples.h"

#include <cstring>
#include <numeric>
#include <utility>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "graph/graph_state.h"
#include "runtime/philox.h"

namespace traingraph {

void Samples::add(const NamedData& arrays, const NamedTensors& declared, const char* what,
                  NamedData ExecutionArguments::* to) {
  for (const auto& [name, array] : arrays) {
    const std::string subject = std::string("[samples] ") + what + " '" + name + "': ";
    const TensorPtr* tensor = find(declared, name);
    if (tensor == nullptr) {
      throw InvalidArgument(std::string("[samples] expected ") + what + " of " +
                            names_of(declared) + " but got '" + name + "'");
    }
    const TensorDescriptor& d = (*tensor)->descriptor();
    if (array.data_type != d.data_type) {
      throw DataTypeError(subject + "expected " + traingraph::name(d.data_type) + " but got " +
                          (array.data_type == DataType::kInvalid
                               ? "raw bytes"
                               : traingraph::name(array.data_type)));
    }
    const std::int64_t rows = array.shape.empty() ? 0 : array.shape[0];
    const std::int64_t per_row = element_count(d.shape) / d.shape[0];
    if (rows == 0 || element_count(array.shape) != rows * per_row) {
      Shape expected = d.shape;
      expected[0] = rows;
      throw ShapeError(subject + "expected at least one sample and, behind axis 0, the shape of " +
                       to_string(d.shape) + " but got " + to_string(array.shape));
    }
    if (count_ != 0 && rows != count_) {
      throw ShapeError(subject + "expected " + std::to_string(count_) +
                       " samples as in the arrays before but got " + std::to_string(rows));
    }
    count_ = rows;
    columns_.push_back(
        {name, array, static_cast<std::size_t>(per_row) * element_bytes(d.data_type), to, {}});
  }
}

void Samples::shuffle(std::uint64_t seed, int epoch) {
  order_.resize(static_cast<std::size_t>(count_));
  for (Column& column : columns_) column.all = column.all.on_host();  // rows are gathered there
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  for (std::size_t i = order_.size(); i-- > 1;) {
    const philox::Block block = philox::block_of(seed, static_cast<std::uint64_t>(epoch), i);
    const std::uint64_t number = std::uint64_t{block.word[0]} << 32 | block.word[1];
    std::swap(order_[i], order_[number % (i + 1)]);
  }
}

ExecutionArguments Samples::batch(std::int64_t first, std::int64_t rows) {
  ExecutionArguments arguments;
  arguments.batch_size = rows;
  arguments.options = ExecutionOptions::kSynchronous;
  for (Column& column : columns_) {
    TensorData data = column.all;
    auto* bytes = static_cast<std::byte*>(data.bytes);
    const std::size_t row = column.row_bytes;
    if (order_.empty()) {
      data.bytes = bytes + static_cast<std::size_t>(first) * row;
    } else {
      column.buffer.resize(static_cast<std::size_t>(rows) * row);
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto from = static_cast<std::size_t>(order_[static_cast<std::size_t>(first + r)]);
        std::memcpy(column.buffer.data() + static_cast<std::size_t>(r) * row, bytes + from * row,
                    row);
      }
      data.bytes = column.buffer.data();
    }
    data.length = static_cast<std::size_t>(rows) * row;
    data.shape[0] = rows;
    (arguments.*column.to).emplace_back(column.name, std::move(data));
  }
  return arguments;
}

}  // namespace traingraph
