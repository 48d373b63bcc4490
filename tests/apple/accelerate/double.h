#pragma once

#include <cstddef>

// What the doubles of Accelerate share. A call against the documented rules ends the process with
// a sentence; what Apple answers with an error is answered so only where a test asks for it:
//   TRAINGRAPH_ACCELERATE_REFUSES=name  that call gives no filter, or -1
//   TRAINGRAPH_ACCELERATE_ADDS=1        gradients are added to what their memory holds
//   TRAINGRAPH_ACCELERATE_READS=word    the documentation was meant otherwise: "copies" for filters
//                                       that keep copies in spite of the flag, "padding" for pad as
//                                       right, left, down, up, "epsilon" for Adam without it,
//                                       "nan" for vvexpf that makes 0 of it
//   TRAINGRAPH_ACCELERATE_COUNTS=1      at the end the calls of each name are printed to stderr,
//                                       and how many filters were never destroyed
namespace accelerate_double {

// Ends the process unless the rule was kept.
void require(bool kept, const char* call, const char* rule);
// Notes a call; true where a test wants it refused.
bool refuses(const char* call);
bool adds_gradients();
bool reads(const char* word);

// Whether the elements of two vectors share memory. Distances in elements.
struct Range {
  const void* first;
  long stride;
  std::size_t count, bytes;  // of an element
};
bool overlap(const Range& a, const Range& b);

}  // namespace accelerate_double
