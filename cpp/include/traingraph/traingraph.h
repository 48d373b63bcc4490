#pragma once

// The whole public surface. Include this; the other headers are its chapters.
#include <traingraph/activation.h>
#include <traingraph/arithmetic.h>
#include <traingraph/attention.h>
#include <traingraph/batch_normalization.h>
#include <traingraph/comparison.h>
#include <traingraph/convolution.h>
#include <traingraph/data_movement.h>
#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/fit.h>
#include <traingraph/graph.h>
#include <traingraph/indexing.h>
#include <traingraph/interruption.h>
#include <traingraph/layer.h>
#include <traingraph/loss.h>
#include <traingraph/memory_plan.h>
#include <traingraph/optimizer.h>
#include <traingraph/pooling.h>
#include <traingraph/profile.h>
#include <traingraph/reduction.h>
#include <traingraph/resizing.h>
#include <traingraph/softmax.h>
#include <traingraph/tensor.h>
#include <traingraph/types.h>
