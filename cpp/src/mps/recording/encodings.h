// Parses the words of a recording into encodings: operands, constants, image regions and predicate.
// Recording (recording.h) states the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "mps/recording/recording.h"

namespace traingraph::mps {

inline std::vector<Range> read_ranges(const std::vector<std::uint64_t>& words, std::size_t& at) {
  std::vector<Range> ranges(words[at++]);
  for (Range& range : ranges) {
    range = {words[at], words[at + 1], words[at + 2]};
    at += 3;
  }
  return ranges;
}

struct Encoding {
  std::vector<std::vector<Range>> operands;
  std::size_t input_count = 0;
  std::vector<std::uint64_t> constants;
  std::size_t number_count = 0;
  std::map<std::size_t, ImagePart> parts;  // by operand
  std::vector<Range> predicate;            // empty: runs always
  std::int64_t predicate_element = 0;
};

inline ImagePart read_part(const std::uint64_t* words) {
  ImagePart part;
  const auto fill = [&words](auto& numbers) {
    for (std::int64_t& number : numbers) number = static_cast<std::int64_t>(*words++);
  };
  fill(part.first);
  fill(part.extent);
  fill(part.size);
  fill(part.place);
  return part;
}

// Calls f(number of the encoding, Encoding) for each.
template <class F>
void for_encodings(const std::vector<std::uint64_t>& words, const F& f) {
  std::size_t at = 0;
  for (std::size_t k = 0; at < words.size(); ++k) {
    const std::uint64_t* head = &words[at];
    Encoding one;
    one.input_count = static_cast<std::size_t>(head[2]);
    one.constants.assign(head + kHeadWords, head + kHeadWords + head[3]);
    one.number_count = static_cast<std::size_t>(head[4]);
    at += kHeadWords + head[3];
    for (std::uint64_t n = 0; n < head[5]; ++n, at += 1 + kPartWords) {
      one.parts[words[at]] = read_part(&words[at + 1]);
    }
    for (std::uint64_t n = 0; n < head[1]; ++n) one.operands.push_back(read_ranges(words, at));
    if (head[6] != 0) {
      one.predicate = read_ranges(words, at);
      one.predicate_element = static_cast<std::int64_t>((head[6] - 1) / sizeof(float));
    }
    f(k, one);
  }
}

}  // namespace traingraph::mps
