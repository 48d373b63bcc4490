#pragma once

// The MPS training layer. Include this; the other headers are its chapters.
#include <traingraph/mps/arithmetic.h>
#include <traingraph/mps/batch_normalization.h>
#include <traingraph/mps/command_buffer.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/mps/convolution_transpose.h>
#include <traingraph/mps/device.h>
#include <traingraph/mps/dropout.h>
#include <traingraph/mps/filter_nodes.h>
#include <traingraph/mps/forward_loss.h>
#include <traingraph/mps/graph.h>
#include <traingraph/mps/image.h>
#include <traingraph/mps/instance_normalization.h>
#include <traingraph/mps/kernel.h>
#include <traingraph/mps/local_normalization.h>
#include <traingraph/mps/loss.h>
#include <traingraph/mps/neuron.h>
#include <traingraph/mps/nodes.h>
#include <traingraph/mps/optimizer.h>
#include <traingraph/mps/pooling.h>
#include <traingraph/mps/rearrangement.h>
#include <traingraph/mps/reduction.h>
#include <traingraph/mps/softmax.h>
#include <traingraph/mps/state.h>
#include <traingraph/mps/upsampling.h>
