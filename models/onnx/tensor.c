/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of a file as numbers. Elements lie in raw bytes, in another file, or in a list of the
 * message whose elements may be wider than the tensor's: all are little endian, so the first bytes
 * of a wider element are the element.
 */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MAX_ELEMS (1ull << 40)

static uint32_t type_bytes(uint32_t type)
{
    switch (type) {
    case ONNX_UINT8:
    case ONNX_INT8:
    case ONNX_BOOL:
        return 1;
    case ONNX_UINT16:
    case ONNX_INT16:
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16:
        return 2;
    case ONNX_FLOAT:
    case ONNX_INT32:
    case ONNX_UINT32:
        return 4;
    case ONNX_INT64:
    case ONNX_UINT64:
    case ONNX_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

/* Where elements lie in the message; bytes NULL: in another file. */
struct stored {
    const uint8_t *bytes;
    uint64_t n;      /* elements that are there */
    uint32_t stride; /* bytes from one to the next */
};

static struct stored stored(const Onnx__TensorProto *tensor, uint32_t width)
{
    if (tensor->has_raw_data) {
        return (struct stored){
            tensor->raw_data.data != NULL ? tensor->raw_data.data : (const uint8_t *)"",
            tensor->raw_data.len % width == 0 ? tensor->raw_data.len / width : UINT64_MAX, width};
    }
    switch (tensor->data_type) {
    case ONNX_FLOAT:
        return (struct stored){(const uint8_t *)tensor->float_data, tensor->n_float_data, 4};
    case ONNX_DOUBLE:
        return (struct stored){(const uint8_t *)tensor->double_data, tensor->n_double_data, 8};
    case ONNX_INT64:
        return (struct stored){(const uint8_t *)tensor->int64_data, tensor->n_int64_data, 8};
    case ONNX_UINT32:
    case ONNX_UINT64:
        return (struct stored){(const uint8_t *)tensor->uint64_data, tensor->n_uint64_data, 8};
    default:
        return (struct stored){(const uint8_t *)tensor->int32_data, tensor->n_int32_data, 4};
    }
}

static bool is_external(const Onnx__TensorProto *tensor)
{
    return tensor->has_data_location && tensor->data_location != 0;
}

pst_status onnx_tensor_check(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                             struct onnx_value *ret_value, struct pst_error *err)
{
    const uint32_t type = tensor->has_data_type ? (uint32_t)tensor->data_type : 0;
    const uint32_t width = type_bytes(type);
    const char *name = tensor->name == NULL ? "" : tensor->name;
    uint64_t elems = 1;

    if (width == 0) {
        return ONNX_BAD("input.unsupported",
                        "tensor \"%s\" has elements of type %u; floats of 16 to 64 bits, integers "
                        "of 8 to 64 bits and truth values are read",
                        name, type);
    }
    if (tensor->n_dims > ONNX_RANK) {
        return ONNX_BAD("input.limit", "tensor \"%s\" has %zu axes; at most %d are possible", name,
                        tensor->n_dims, ONNX_RANK);
    }
    ret_value->type = type;
    ret_value->rank = (uint32_t)tensor->n_dims;
    for (uint32_t i = 0; i < ret_value->rank; i++) {
        if (tensor->dims[i] < 0 ||
            (tensor->dims[i] > 0 && (uint64_t)tensor->dims[i] > MAX_ELEMS / (elems ? elems : 1))) {
            return ONNX_BAD("input.limit", "tensor \"%s\": axis %u has length %lld", name, i,
                            (long long)tensor->dims[i]);
        }
        ret_value->dims[i] = (uint64_t)tensor->dims[i];
        elems *= ret_value->dims[i];
    }
    if (is_external(tensor)) {
        return onnx_external_check(model->external, tensor, elems * width, err);
    }
    if (stored(tensor, width).n != elems) {
        return ONNX_BAD("input.syntax",
                        "tensor \"%s\" has %llu elements by its shape, and data for another number",
                        name, (unsigned long long)elems);
    }
    return PST_OK;
}

static float from_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3FF, bits;
    float value;

    if (exponent == 0) { /* 0 and below the smallest normal number: exact in f32 */
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double real_at(const uint8_t *at, uint32_t type)
{
    uint16_t half;
    uint32_t bits;
    float single;
    double number;

    switch (type) {
    case ONNX_FLOAT:
        memcpy(&single, at, sizeof single);
        return single;
    case ONNX_FLOAT16:
        memcpy(&half, at, sizeof half);
        return from_half(half);
    case ONNX_BFLOAT16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return single;
    default:
        memcpy(&number, at, sizeof number);
        return number;
    }
}

static int64_t integer_at(const uint8_t *at, uint32_t type)
{
    uint64_t bits = 0;
    uint32_t n = type_bytes(type);

    memcpy(&bits, at, n);
    switch (type) {
    case ONNX_INT8:
        return (int8_t)bits;
    case ONNX_INT16:
        return (int16_t)bits;
    case ONNX_INT32:
        return (int32_t)bits;
    case ONNX_BOOL:
        return bits != 0;
    default:
        return (int64_t)bits;
    }
}

/* Elements from `first` on as they are stored; *ret_owned to be freed. */
static pst_status fetch(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                        uint64_t first, uint64_t n, struct stored *ret_stored, void **ret_owned,
                        struct pst_error *err)
{
    const uint32_t width = type_bytes((uint32_t)tensor->data_type);

    *ret_owned = NULL;
    if (!is_external(tensor)) {
        *ret_stored = stored(tensor, width);
        ret_stored->bytes += first * ret_stored->stride;
        return PST_OK;
    }
    *ret_owned = pst_alloc(n, width);
    *ret_stored = (struct stored){*ret_owned, n, width};
    return onnx_external_read(model->external, tensor, first * width, n * width, *ret_owned, err);
}

pst_status onnx_tensor_reals(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                             uint64_t first, uint64_t n, double *ret_values, struct pst_error *err)
{
    struct stored from;
    void *owned;
    pst_status status = fetch(model, tensor, first, n, &from, &owned, err);

    for (uint64_t i = 0; i < n && status == PST_OK; i++) {
        const uint8_t *at = from.bytes + i * from.stride;

        ret_values[i] = onnx_is_real((uint32_t)tensor->data_type)
                            ? real_at(at, (uint32_t)tensor->data_type)
                            : (double)integer_at(at, (uint32_t)tensor->data_type);
    }
    free(owned);
    return status;
}

pst_status onnx_tensor_integers(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                                uint64_t first, uint64_t n, int64_t *ret_values,
                                struct pst_error *err)
{
    struct stored from;
    void *owned;
    pst_status status = fetch(model, tensor, first, n, &from, &owned, err);

    for (uint64_t i = 0; i < n && status == PST_OK; i++) {
        ret_values[i] = integer_at(from.bytes + i * from.stride, (uint32_t)tensor->data_type);
    }
    free(owned);
    return status;
}
