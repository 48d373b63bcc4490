// What every double of Metal Performance Shaders includes.
#pragma once
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "kept.h"
#include "members.h"
#include "metal.h"
#include "runtime.h"
