#pragma once

#include <cstddef>

// What the doubles of Accelerate share. A call against the documented rules ends the process with
// a sentence; what Apple answers with an error is answered so only where a test asks for it:
//   TRAINGRAPH_ACCELERATE_REFUSES=name  that call gives no filter, or -1
//   TRAINGRAPH_ACCELERATE_READS=word    the documentation was meant otherwise: "adds" for gradients
//                                       that are added to what their memory holds, "copies" for
//                                       filters that keep copies in spite of the flag, "null" for
//                                       gradients of which none may be null, "padding" for pad as
//                                       right, left, down, up, "groups" for groups of every n-th
//                                       channel, "dilation" for a window that has none, "averages"
//                                       for those with and without padding exchanged, "norm" for a
//                                       gradient of the norm that is not divided by it
//   TRAINGRAPH_ACCELERATE_COUNTS=1      at the end the calls of each name are printed to stderr,
//                                       and how many filters were never destroyed
namespace accelerate_double {

// Ends the process unless the rule was kept.
void require(bool kept, const char* call, const char* rule);
// Notes a call; true where a test wants it refused.
bool refuses(const char* call);
bool reads(const char* word);

// Whether two arrays share memory.
struct Range {
  const void* first;
  std::size_t count;  // of float
};
bool overlap(const Range& a, const Range& b);

}  // namespace accelerate_double
