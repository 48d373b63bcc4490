#pragma once

#include <pybind11/pybind11.h>

#include <traingraph/traingraph.h>

#include "convert/gil.h"

// What every file of the bindings sees: pybind11, ML Compute's classes, and Python's lock.
namespace py = pybind11;
