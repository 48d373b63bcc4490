// Cuts the arrays of a fit into batches, shuffles their order per epoch, and gathers shuffled rows.
#include "graph/fit/samples.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"
#include "graph/data/shape_advice.h"
#include "graph/state/graph_state.h"
#include "runtime/backend.h"
#include "runtime/device_memory.h"
#include "runtime/foreign_streams.h"
#include "runtime/numbers/philox.h"

namespace traingraph {

void Samples::add(const NamedData& arrays, const NamedTensors& declared, const char* what,
                  NamedData ExecutionArguments::* to) {
  for (const auto& [name, array] : arrays) {
    const std::string subject = call_ + " " + what + " '" + name + "': ";
    const bool are_labels = to == &ExecutionArguments::loss_labels;
    const TensorPtr* tensor = find(declared, name);
    if (tensor == nullptr) {
      throw InvalidArgument(call_ + " expected " + what + " of " + names_of(declared) +
                            " but got '" + name + "'");
    }
    const TensorDescriptor& d = (*tensor)->descriptor();
    if (array.data_type != d.data_type) {
      throw DataTypeError(subject + "expected " + traingraph::name(d.data_type) + " but got " +
                          (array.data_type == DataType::kInvalid
                               ? "raw bytes"
                               : traingraph::name(array.data_type)));
    }
    NamedData& given = batch_.arguments.*to;
    if (d.shape[0] == 1 && declared_batch_ != 1) {
      if (!fits(array.shape, d.shape)) {
        throw ShapeError(subject + "expected shape " + to_string(d.shape) +
                         ", for all samples, but got " + to_string(array.shape));
      }
      given.emplace_back(name, array);
      continue;
    }
    const std::int64_t rows = array.shape.empty() ? 0 : array.shape[0];
    Shape expected = d.shape;
    expected[0] = rows;
    if (rows == 0 || !fits(array.shape, expected)) {
      std::string sample = to_string(expected);
      sample.replace(1, std::to_string(rows).size(), "N");
      throw ShapeError(subject + "expected " + (rows == 0 ? "at least one sample" : "samples") +
                       ", " + sample + ", but got " + to_string(array.shape) +
                       (are_labels ? advice_on_labels(array.shape, d.shape, d.data_type)
                                   : advice_on_images(array.shape, d.shape)));
    }
    if (count_ != 0 && rows != count_) {
      throw ShapeError(subject + "expected " + std::to_string(count_) +
                       " samples as in the arrays before but got " + std::to_string(rows) +
                       advice_on_rows(rows));
    }
    count_ = rows;
    const std::int64_t per_row = element_count(d.shape) / d.shape[0];
    columns_.push_back({name,
                        array,
                        static_cast<std::size_t>(per_row) * element_bytes(d.data_type),
                        to,
                        given.size(),
                        {}});
    given.emplace_back(name, array);
  }
}

void Samples::sort_by(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto column = std::ranges::find(columns_, name, &Column::name);
    if (column == columns_.end()) continue;
    const TensorData lengths = column->all.on_host();
    const std::int64_t of_sample = element_count(lengths.shape) / count_;
    if (lengths.data_type != DataType::kInt32 || of_sample != 1) continue;
    const auto* const first = static_cast<const std::int32_t*>(lengths.bytes);
    lengths_.push_back({name, {first, first + count_}});
  }
}

void Samples::check_lengths(std::int64_t batch, bool is_shuffled) const {
  const auto descend = [batch](const Lengths& lengths) { return lengths.descend(batch); };
  if (!is_shuffled && std::ranges::all_of(lengths_, descend)) return;
  for (const Lengths& other : lengths_) {
    if (other.of == lengths_.front().of) continue;
    throw InvalidArgument(call_ + " expected inputs '" + lengths_.front().name + "' and '" +
                          other.name +
                          "' of the same lengths, by which the samples of a batch are sorted for "
                          "the LSTM layers that read them, but got others; attention takes "
                          "lengths in any order");
  }
}

void Samples::arrange(const Order& order, const Backend& device) {
  const bool sorts = is_sorted() && (order.seed || !descend(order.batch));
  if (!order.seed && !sorts) return;
  most_rows_ = std::min(order.batch, count_);
  order_.resize(static_cast<std::size_t>(count_));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (order.seed) shuffle(*order.seed, order.epoch);
  if (sorts) sort(order.batch);
  bool lies_there = false;
  for (Column& column : columns_) {
    if (column.all.gpu < 0 || column.all.gpu != gpu_of(device)) column.all = column.all.on_host();
    lies_there = lies_there || column.all.gpu >= 0;
  }
  if (!lies_there) return;
  const std::size_t bytes = order_.size() * sizeof(std::int64_t);
  if (places_ == nullptr) places_ = device.allocate(bytes);
  write_memory(device, places_.get(), order_.data(), bytes);
}

void Samples::shuffle(std::uint64_t seed, std::int64_t epoch) {
  for (std::size_t i = order_.size(); i-- > 1;) {
    const philox::Block block = philox::block_of(seed, static_cast<std::uint64_t>(epoch), i);
    const std::uint64_t number = std::uint64_t{block.word[0]} << 32 | block.word[1];
    std::swap(order_[i], order_[number % (i + 1)]);
  }
}

bool Samples::Lengths::descend(std::int64_t batch) const {
  for (std::size_t k = 1; k < of.size(); ++k) {
    if (static_cast<std::int64_t>(k) % batch != 0 && of[k] > of[k - 1]) return false;
  }
  return true;
}

// Those of one length stay in their order.
void Samples::sort(std::int64_t batch) {
  const std::vector<std::int64_t>& lengths = lengths_.front().of;
  for (std::int64_t first = 0; first < count_; first += batch) {
    const auto begin = order_.begin() + first;
    std::stable_sort(
        begin, begin + std::min(batch, count_ - first), [&](std::int64_t a, std::int64_t b) {
          return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
        });
  }
}

// Into a buffer that nobody reads any more.
void Samples::gather(Column& column, std::int64_t first, std::int64_t rows, TensorData& data) {
  data.owner = nullptr;
  auto free = std::find_if(column.buffers.begin(), column.buffers.end(),
                           [](const auto& buffer) { return buffer.use_count() == 1; });
  if (free == column.buffers.end()) {
    // For any batch, whichever is the first to need another buffer.
    const std::size_t bytes = static_cast<std::size_t>(most_rows_) * column.row_bytes;
    free = column.buffers.emplace(free, new std::byte[bytes]);
  }
  const auto* table = static_cast<const std::byte*>(column.all.bytes);
  gather_on_host(free->get(), {table, column.row_bytes}, order_.data() + first,
                 static_cast<std::size_t>(rows));
  data.bytes = free->get();
  data.owner = *free;
  data.gpu = -1;
}

Samples::Batch& Samples::batch(std::int64_t first, std::int64_t rows) {
  batch_.arguments.batch_size = rows;
  if (places_ != nullptr) batch_.chosen = {places_, first, rows};
  batch_.samples = {order_.empty() ? nullptr : order_.data(), first, count_};
  for (Column& column : columns_) {
    TensorData& data = (batch_.arguments.*column.to)[column.position].second;
    auto* const all = static_cast<std::byte*>(column.all.bytes);
    if (order_.empty()) {
      data.bytes = all + static_cast<std::size_t>(first) * column.row_bytes;
    } else if (column.all.gpu < 0) {
      gather(column, first, rows, data);
    } else {
      data.bytes = all;
    }
    data.length = static_cast<std::size_t>(rows) * column.row_bytes;
    data.shape[0] = rows;
  }
  return batch_;
}

}  // namespace traingraph
