#pragma once

namespace traingraph::metal {

// All files of shaders/ as one text; generated.
extern const char* const kShaderText;

}  // namespace traingraph::metal
