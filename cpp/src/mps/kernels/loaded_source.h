// Reads data sources between load() and purge(), and compares what they hand over with what is
// expected.
#pragma once

#include <span>
#include <string>

#include <traingraph/errors.h>
#include <traingraph/mps/source_numbers.h>

#include "mps/recording/storage.h"

namespace traingraph::mps {

// Calls `read` between load() and purge(). Raises InvalidArgument where load() says no.
template <class Source, class Read>
void while_loaded(Source& source, const std::string& who, Read read) {
  if (!source.load()) {
    const std::string label = source.label();
    throw InvalidArgument("[" + who + "] expected a data source to load but " +
                          (label.empty() ? "its load()" : "load() of '" + label + "'") +
                          " said no");
  }
  try {
    read();
  } catch (...) {
    try {
      source.purge();
    } catch (...) {  // what went wrong first is raised
    }
    throw;
  }
  source.purge();
}

// Raises InvalidArgument for none, DataTypeError and ShapeError for others.
void check_numbers(const SourceNumbers& numbers, const Shape& expected, DataType type,
                   const std::string& who, const char* what);

// A float32 number per channel, or none for the same one everywhere.
struct ChannelNumbers {
  const char* what;
  SourceNumbers numbers;
  float otherwise;
  Storage& to;
};
// Raises as check_numbers() before anything is written.
void write_all(std::span<const ChannelNumbers> arrays, const std::string& who);

}  // namespace traingraph::mps
