/* SPDX-License-Identifier: Apache-2.0
 *
 * A file as a model: reads it, writes the graph, and keeps the file for the values that parameters
 * and running statistics begin with.
 */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define PIECE 65536u /* elements that are read at a time */

struct file {
    struct onnx_model model;
    struct onnx_origins origins;
    struct pst_published_file published; /* path NULL: not asked for yet */
};

static void destroy(void *context)
{
    struct file *file = context;

    onnx_model_close(&file->model);
    free(file);
}

/* Elements of an initializer in their order. */
static pst_status read_plain(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                             uint64_t first, uint64_t n, float *ret_values, struct pst_error *err)
{
    double *piece = pst_alloc(PIECE, sizeof *piece);
    pst_status status = PST_OK;

    for (uint64_t done = 0; done < n && status == PST_OK; done += PIECE) {
        const uint64_t count = n - done < PIECE ? n - done : PIECE;

        status = onnx_tensor_reals(model, tensor, first + done, count, piece, err);
        for (uint64_t i = 0; i < count && status == PST_OK; i++) {
            ret_values[done + i] = (float)piece[i];
        }
    }
    free(piece);
    return status;
}

/* [out, in, height, width] as [height, width, in, out]; turned: [in, out, ...], its windows
   backwards. */
static void turn_image(const uint64_t *dims, bool turned, const float *from, float *to)
{
    const uint64_t window = dims[2] * dims[3];

    for (uint64_t o = 0; o < dims[0]; o++) {
        for (uint64_t i = 0; i < dims[1]; i++) {
            for (uint64_t w = 0; w < window; w++) {
                const uint64_t at = turned ? (i * dims[0] + o) * window + window - 1 - w
                                           : (o * dims[1] + i) * window + w;

                to[(w * dims[1] + i) * dims[0] + o] = from[at];
            }
        }
    }
}

static pst_status read_param(const struct onnx_model *model, const struct onnx_param *param,
                             uint64_t elems, float *ret_values, struct pst_error *err)
{
    const struct onnx_value *base = &model->values[param->base];
    const uint64_t first =
        param->first == 0 ? 0 : param->first * (onnx_elems(base) / base->dims[0]);
    float *values = param->image ? pst_alloc(elems, sizeof *values) : ret_values;
    pst_status status = read_plain(model, base->tensor, first, elems, values, err);

    if (param->image) {
        if (status == PST_OK) {
            turn_image(param->dims, param->turned, values, ret_values);
        }
        free(values);
    }
    return status;
}

/* Running statistics, which some files fill with one number. */
static pst_status read_state(struct onnx_model *model, uint32_t v, uint64_t elems,
                             float *ret_values, bool *ret_found, struct pst_error *err)
{
    const struct onnx_value *value = &model->values[v];

    *ret_found = onnx_elems(value) == elems && (value->tensor != NULL || value->data != NULL);
    if (*ret_found && value->tensor != NULL) {
        return read_plain(model, value->tensor, 0, elems, ret_values, err);
    }
    for (uint64_t i = 0; i < elems && *ret_found; i++) {
        ret_values[i] = (float)onnx_real(value->data, i);
    }
    return PST_OK;
}

static pst_status load(void *context, const char *name, uint32_t state, uint64_t elems,
                       float *ret_values, bool *ret_found, struct pst_error *err)
{
    struct file *file = context;

    *ret_found = false;
    for (uint32_t i = 0; i < file->origins.n; i++) {
        const struct onnx_origin *origin = &file->origins.origins[i];

        if (strcmp(origin->name, name) != 0 ||
            (origin->variance == PST_NONE) != (state == PST_NONE)) {
            continue;
        }
        if (state != PST_NONE) {
            return read_state(&file->model, state == 0 ? origin->param.base : origin->variance,
                              elems, ret_values, ret_found, err);
        }
        *ret_found = file->model.values[origin->param.base].tensor != NULL;
        return !*ret_found ? PST_OK
                           : read_param(&file->model, &origin->param, elems, ret_values, err);
    }
    return PST_OK;
}

static const struct pst_published_file *published(void *context)
{
    struct file *file = context;

    if (file->published.path == NULL) {
        onnx_publish(&file->model, &file->origins, &file->published);
    }
    return &file->published;
}

static pst_status read_tensor(void *context, const struct pst_initial_tensor *tensor,
                              uint64_t first, uint64_t n, void *ret_values, struct pst_error *err)
{
    const struct onnx_model *model = &((struct file *)context)->model;
    const Onnx__TensorProto *proto = model->values[tensor->value].tensor;
    int64_t *piece;
    pst_status status;

    PST_ASSERT(proto != NULL);
    if (tensor->kind == PST_TENSOR_REAL) {
        return read_plain(model, proto, first, n, ret_values, err);
    }
    if (tensor->kind == PST_TENSOR_INTEGER) {
        return onnx_tensor_integers(model, proto, first, n, ret_values, err);
    }
    piece = pst_alloc(n + 1, sizeof *piece);
    status = onnx_tensor_integers(model, proto, first, n, piece, err);
    for (uint64_t i = 0; i < n && status == PST_OK; i++) {
        ((uint8_t *)ret_values)[i] = piece[i] != 0;
    }
    free(piece);
    return status;
}

pst_status onnx_build(struct pst_model *m, const void *config, struct pst_model_ends *ret_ends,
                      struct pst_error *err)
{
    struct file *file = pst_alloc(1, sizeof *file);
    pst_status status = onnx_model_open(config, &file->model, err);

    PST_TRY(status, onnx_emit(&file->model, m, ret_ends, &file->origins, err));
    file->model.config = NULL; /* which is the caller's */
    if (status != PST_OK) {
        destroy(file);
        return status;
    }
    m->initial = (struct pst_initial){file, load, destroy, published, read_tensor};
    return PST_OK;
}
