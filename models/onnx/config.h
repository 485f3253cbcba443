/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of [model] use = "onnx", and the function that makes a graph of the file.
 */
#ifndef PST_MODELS_ONNX_CONFIG_H
#define PST_MODELS_ONNX_CONFIG_H

#include "block.h"

enum onnx_loss { ONNX_LOSS_AUTO, ONNX_LOSS_CROSS_ENTROPY, ONNX_LOSS_MSE, ONNX_LOSS_BCE };

struct onnx_config {
    const char *file;
    const char *dims, *inputs, *frozen, *trained, *tie; /* lists of words, separated by commas */
    const char *output;
    uint32_t targets; /* enum: plain | masked */
    uint32_t loss;    /* enum onnx_loss, of [train] */
};

/* Into m, with where initial values come from. Errors: input.* with the file; config.value. */
pst_status onnx_build(struct pst_model *m, const void *config, struct pst_model_ends *ret_ends,
                      struct pst_error *err);

#endif
