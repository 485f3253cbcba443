/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: features and labels of a sample, each a column of fixed width in files. Features become
 * the model's input in shape, layout and type; images that are smaller stand in the middle of black
 * ones, and grey ones fill all channels.
 */
#include "data/data_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"

void pst_records_finish(struct pst_records *records)
{
    pst_parts_finish(&records->x.parts);
    pst_parts_finish(&records->labels.parts);
    free(records->from);
    free(records->mean);
    free(records->std);
}

/* --- does it fit? ----------------------------------------------------------------------------- */

/* "28 x 28 x 1", or "one number". */
static const char *dims_text(const uint64_t *dims, uint32_t rank, char text[160])
{
    snprintf(text, 160, "%s", rank == 0 ? "one number" : "");
    for (uint32_t i = 0; i < rank; i++) {
        pst_text_append(text, 160, "%s%llu", i == 0 ? "" : " x ", (unsigned long long)dims[i]);
    }
    return text;
}

static pst_status fail_fit(const struct pst_column *column, const struct pst_tensor *tensor,
                           struct pst_error *err)
{
    char has[160], wants[160];

    return pst_data_file_fail(
        &column->parts.parts[0].file, err, "a record is %s%s, but the model's input %s is %s%s",
        dims_text(column->dims, column->rank, has),
        tensor->dtype != PST_I32 || column->element < PST_ELEMENT_F32 ? ""
                                                                      : ", not of whole numbers",
        tensor->name, dims_text(tensor->dims, tensor->rank, wants),
        tensor->dtype == PST_I32 ? ", of whole numbers" : "");
}

static bool same_dims(const struct pst_column *column, const struct pst_tensor *tensor)
{
    bool same = column->rank == tensor->rank;

    for (uint32_t i = 0; same && i < column->rank; i++) {
        same = column->dims[i] == tensor->dims[i];
    }
    return same;
}

/* An image of a file: rows, columns, channels, and how far apart neighbours lie. */
struct image {
    uint64_t dims[3], stride[3];
};

/* Has the file channels first, where either may be? What fits exactly is meant, else what files of
   the model have. */
static bool is_planar(const struct image *first, const struct image *last, const uint64_t wants[3],
                      bool usual)
{
    const bool is_first = memcmp(first->dims, wants, sizeof first->dims) == 0;
    const bool is_last = memcmp(last->dims, wants, sizeof last->dims) == 0;

    return is_first != is_last ? is_first : usual;
}

static bool image_of(const struct pst_column *column, const uint64_t wants[3], bool usual,
                     struct image *ret_image)
{
    const uint64_t *d = column->dims;
    const struct image first = {{d[1], d[2], d[0]}, {d[2], 1, d[1] * d[2]}},
                       last = {{d[0], d[1], d[2]}, {d[1] * d[2], d[2], 1}};
    const bool may_be_last = !column->planar && (d[2] == wants[2] || d[2] == 1),
               may_be_first = column->planar || d[0] == wants[2] || d[0] == 1;

    if (column->rank == 2) {
        *ret_image = (struct image){{d[0], d[1], 1}, {d[1], 1, 0}};
    } else if (column->rank == 3 && (may_be_last || may_be_first)) {
        *ret_image =
            may_be_first && (!may_be_last || is_planar(&first, &last, wants, usual)) ? first : last;
    } else {
        return false;
    }
    if (ret_image->dims[2] == 1) {
        ret_image->stride[2] = 0;
    }
    return true;
}

/* Rows, columns and channels that the model wants of an image; false: it wants none. */
static bool wanted_image(const struct pst_column *column, const struct pst_tensor *x,
                         uint64_t ret_dims[3])
{
    if (x->rank == 3) {
        memcpy(ret_dims, x->dims, 3 * sizeof *ret_dims);
        return true;
    }
    if (x->rank == 1 && column->planar && x->elems == column->elems) { /* a row of its pixels */
        ret_dims[0] = column->dims[1];
        ret_dims[1] = column->dims[2];
        ret_dims[2] = column->dims[0];
        return true;
    }
    return false;
}

/* Where each element of the model's image comes from; false: the image does not go in. */
static bool map_image(struct pst_records *records, const struct pst_tensor *x)
{
    uint64_t out[3], top, left, e = 0;
    struct image image;

    if (!wanted_image(&records->x, x, out) || !image_of(&records->x, out, x->planar, &image) ||
        image.dims[0] > out[0] || image.dims[1] > out[1] ||
        (image.dims[2] != out[2] && image.dims[2] != 1)) {
        return false;
    }
    records->n_channels = out[2];
    records->from = pst_alloc(x->elems, sizeof *records->from);
    top = (out[0] - image.dims[0]) / 2;
    left = (out[1] - image.dims[1]) / 2;
    for (uint64_t row = 0; row < out[0]; row++) {
        for (uint64_t column = 0; column < out[1]; column++) {
            bool inside = row >= top && row - top < image.dims[0] && column >= left &&
                          column - left < image.dims[1];

            for (uint64_t channel = 0; channel < out[2]; channel++, e++) {
                records->from[e] = inside ? (uint32_t)((row - top) * image.stride[0] +
                                                       (column - left) * image.stride[1] +
                                                       channel * image.stride[2])
                                          : PST_NONE;
            }
        }
    }
    return true;
}

static pst_status fit_x(struct pst_records *records, const struct pst_tensor *x,
                        struct pst_error *err)
{
    const struct pst_column *column = &records->x;
    bool flat = x->rank == 1 && x->elems == column->elems && !column->planar;

    if (x->dtype == PST_I32 && (column->element >= PST_ELEMENT_F32 || x->elems != column->elems)) {
        return fail_fit(column, x, err);
    }
    if (x->dtype == PST_I32 || flat || (same_dims(column, x) && !column->planar && !x->planar)) {
        records->n_channels = x->rank == 0 ? 1 : x->dims[x->rank - 1];
        return PST_OK;
    }
    if (column->elems >= PST_NONE || !map_image(records, x)) {
        return fail_fit(column, x, err);
    }
    return PST_OK;
}

/* One number, or one for each channel; NULL: none. */
static pst_status read_channels(const char *text, const char *key, uint64_t n, bool positive,
                                float **ret_values, struct pst_error *err)
{
    double *numbers;
    uint64_t found;

    if (text == NULL || text[0] == '\0') {
        return PST_OK;
    }
    numbers = pst_alloc(n, sizeof *numbers);
    found = pst_data_read_numbers(text, n, positive, numbers);
    if (found == 1 || found == n) {
        *ret_values = pst_alloc(n, sizeof **ret_values);
    }
    for (uint64_t i = 0; *ret_values != NULL && i < n; i++) {
        (*ret_values)[i] = (float)numbers[found == 1 ? 0 : i];
    }
    free(numbers);
    return *ret_values != NULL
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "data.%s must be one number%s, or one for each of the %llu channels", key,
                          positive ? " above 0" : "", (unsigned long long)n);
}

pst_status pst_records_fit(struct pst_records *records, const struct pst_sample_shape *shape,
                           const char *mean, const char *std, struct pst_error *err)
{
    const struct pst_column *x = &records->x, *labels = &records->labels;
    pst_status status = fit_x(records, shape->x, err);

    if (status == PST_OK &&
        (labels->elems != shape->target->elems ||
         (shape->target->dtype == PST_I32 && labels->element >= PST_ELEMENT_F32))) {
        status = fail_fit(labels, shape->target, err);
    }
    if (status == PST_OK && shape->x->dtype != PST_I32) {
        status = read_channels(mean, "mean", records->n_channels, false, &records->mean, err);
    }
    if (status == PST_OK && shape->x->dtype != PST_I32) {
        status = read_channels(std, "std", records->n_channels, true, &records->std, err);
    }
    records->labels_at = (x->elems * pst_element_bytes(x->element) + 7) / 8 * 8;
    records->room_bytes = records->labels_at + labels->elems * pst_element_bytes(labels->element);
    return status;
}

/* --- a record --------------------------------------------------------------------------------- */

static double number_at(uint32_t element, const void *values, uint64_t i)
{
    switch (element) {
    case PST_ELEMENT_F32:
        return (double)((const float *)values)[i];
    case PST_ELEMENT_F64:
        return ((const double *)values)[i];
    case PST_ELEMENT_U64:
        return (double)((const uint64_t *)values)[i];
    default:
        return (double)pst_element_whole(element, values, i);
    }
}

/* Tokens or classes. -1, -100 as PyTorch has it, and `ignored` where it is no class of the model
   are targets without a loss; NULL: these are no targets. */
static pst_status put_whole(const struct pst_column *column, uint64_t record, const void *values,
                            uint64_t n, uint64_t range, const int64_t *ignored, int32_t *ret_values,
                            struct pst_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        int64_t value = pst_element_whole(column->element, values, i);
        const struct pst_part *part;

        bool known = value >= 0 && (uint64_t)value < range;

        if (!known && ignored != NULL && (value == -1 || value == -100 || value == *ignored)) {
            ret_values[i] = -1;
            continue;
        }
        if (!known) {
            part = pst_parts_find(&column->parts, record);
            return pst_data_file_fail(
                &part->file, err,
                "record %llu (byte %llu): %lld at index %llu, but the model has %llu values: 0 to "
                "%llu",
                (unsigned long long)(record - part->first),
                (unsigned long long)(part->offset + (record - part->first) * part->stride),
                (long long)value, (unsigned long long)i, (unsigned long long)range,
                (unsigned long long)range - 1);
        }
        ret_values[i] = (int32_t)value;
    }
    return PST_OK;
}

/* As PyTorch's ToTensor and Normalize compute, in f32; f64 models keep the digits of their files.
 */
static void put_features(const struct pst_records *records, const struct pst_tensor *x,
                         const void *values, void *ret_x)
{
    for (uint64_t e = 0; e < x->elems; e++) {
        uint64_t channel = e % records->n_channels;
        double value = 0;
        float f;

        if (records->from == NULL || records->from[e] != PST_NONE) {
            value =
                number_at(records->x.element, values, records->from == NULL ? e : records->from[e]);
        }
        if (records->scale > 1 || records->mean != NULL || records->std != NULL) {
            f = (float)value / records->scale;
            f -= records->mean == NULL ? 0.0f : records->mean[channel];
            f /= records->std == NULL ? 1.0f : records->std[channel];
            value = (double)f;
        }
        pst_data_put(ret_x, x->dtype, e, value);
    }
}

static pst_status read_column(const struct pst_column *column, uint64_t record, void *room,
                              struct pst_error *err)
{
    const struct pst_part *part = pst_parts_find(&column->parts, record);

    return pst_data_file_read(&part->file, part->offset + (record - part->first) * part->stride,
                              room, column->elems * pst_element_bytes(column->element), err);
}

pst_status pst_records_read(const struct pst_records *records, const struct pst_sample_shape *shape,
                            uint64_t record, void *room, void *ret_x, void *ret_targets,
                            struct pst_error *err)
{
    const struct pst_column *labels = &records->labels;
    void *of_labels = (char *)room + records->labels_at;
    pst_status status = read_column(&records->x, record, room, err);

    PST_TRY(status, read_column(labels, record, of_labels, err));
    if (status == PST_OK && shape->x->dtype == PST_I32) {
        status =
            put_whole(&records->x, record, room, shape->x->elems, shape->vocab, NULL, ret_x, err);
    } else if (status == PST_OK) {
        put_features(records, shape->x, room, ret_x);
    }
    if (status == PST_OK && shape->target->dtype == PST_I32) {
        return put_whole(labels, record, of_labels, labels->elems, shape->classes,
                         &records->ignored, ret_targets, err);
    }
    for (uint64_t i = 0; status == PST_OK && i < labels->elems; i++) {
        pst_data_put(ret_targets, shape->target->dtype, i,
                     number_at(labels->element, of_labels, i));
    }
    return status;
}
