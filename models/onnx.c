/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from ONNX files: the keys. The reader is in onnx/; a build without protobuf-c has none and
 * says so.
 */
#include "onnx/config.h"

static const struct pst_param params[] = {
    PST_PARAM(struct onnx_config, file, PST_PARAM_PATH, NULL, NULL, "The ONNX file."),
    PST_PARAM(struct onnx_config, dims, PST_PARAM_STRING, "", NULL,
              "Lengths of axes that the file only names, such as [\"seq=128\"]; not of the batch."),
    PST_PARAM(struct onnx_config, inputs, PST_PARAM_STRING, "", NULL,
              "Inputs that the data does not fill, such as [\"mask=1\"]: a number for all "
              "elements; segment; or shifted: the targets, each one place later."),
    PST_PARAM(struct onnx_config, output, PST_PARAM_STRING, "", NULL,
              "Output from which the loss is computed; empty: the first."),
    PST_PARAM(struct onnx_config, targets, PST_PARAM_ENUM, "plain", "plain|masked",
              "plain: the targets of the data; masked: the tokens that were hidden in the input."),
    PST_PARAM(struct onnx_config, frozen, PST_PARAM_STRING, "", NULL,
              "Patterns of names of initializers that are not trained, such as [\"embed*\"]."),
    PST_PARAM(
        struct onnx_config, trained, PST_PARAM_STRING, "", NULL,
        "Patterns of names of initializers that are trained although they are single numbers, "
        "or the file calls them buffers or constants."),
    PST_PARAM(struct onnx_config, tie, PST_PARAM_STRING, "auto", NULL,
              "Initializers that are one parameter: auto: those that the file marks as shared; "
              "off: none; or pairs such as [\"wte=lm_head\"], one of which may be transposed."),
};

#ifndef PENSTOCK_ONNX
pst_status onnx_build(struct pst_model *m, const void *config, struct pst_model_ends *ret_ends,
                      struct pst_error *err)
{
    (void)m;
    (void)config;
    (void)ret_ends;
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "this build of penstock cannot read ONNX files; install libprotobuf-c-dev, "
                    "protobuf-c-compiler and libonnx-dev (scripts/deps.sh) and rebuild it");
}
#endif

const struct pst_model_builder pst_model_onnx = {
    .id = "onnx",
    .summary = "a model from an ONNX file, with its weights",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct onnx_config),
    .loss_at = offsetof(struct onnx_config, loss),
    .build = onnx_build,
};
