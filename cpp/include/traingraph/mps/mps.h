#pragma once

// The MPS training layer. Include this; the other headers are its chapters.
#include <traingraph/mps/batch_normalization.h>
#include <traingraph/mps/command_buffer.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/mps/device.h>
#include <traingraph/mps/filter_nodes.h>
#include <traingraph/mps/graph.h>
#include <traingraph/mps/image.h>
#include <traingraph/mps/kernel.h>
#include <traingraph/mps/loss.h>
#include <traingraph/mps/neuron.h>
#include <traingraph/mps/nodes.h>
#include <traingraph/mps/optimizer.h>
#include <traingraph/mps/pooling.h>
#include <traingraph/mps/softmax.h>
#include <traingraph/mps/state.h>
