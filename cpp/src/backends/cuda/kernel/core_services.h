// What the plugin may ask of the core that has loaded it.
#pragma once

#include "runtime/plugin.h"

namespace traingraph::cuda {

inline const PluginServices* core_services = nullptr;  // set before the first device is made

}  // namespace traingraph::cuda
