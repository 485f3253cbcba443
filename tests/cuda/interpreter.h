/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluates operation graphs for cuDNN on the host, operation by operation as they are described:
 * arithmetic is in double, tensors are rounded to their types.
 */
#ifndef PST_TESTS_CUDA_INTERPRETER_H
#define PST_TESTS_CUDA_INTERPRETER_H

#include "device/cuda/dnn_graph.h"

/* NULL, or what is wrong with the graph or the operands. */
const char *interpret(const struct pst_dnn_graph *graph, void *const operands[PST_DNN_ROLES]);

#endif
