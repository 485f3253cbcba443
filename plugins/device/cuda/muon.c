/* SPDX-License-Identifier: Apache-2.0
 *
 * Muon's update of a matrix, in the order of the cpu device; products are cuBLASLt's. They are made
 * with the kernels, once for each shape of a matrix, and their workspace is what the update's room
 * has free at the time.
 */
#include "product.h"

#include <stdlib.h>

#include "base/memory.h"

static const char doing[] = "the optimizer";

struct pst_cuda_muon {
    uint64_t rows, columns;
    struct pst_cuda_product gram, square, step; /* A = X X^T; A A; (b A + c A A) X */
};

/* Whole blocks of 256 bytes that a piece of the room has for sure, wherever it begins. */
static uint64_t workspace_bytes(uint64_t floats)
{
    const uint64_t bytes = floats * sizeof(float),
                   whole = bytes < 511 ? 0 : (bytes - 255) / 256 * 256;

    return whole < PST_CUDA_PRODUCT_BYTES ? whole : PST_CUDA_PRODUCT_BYTES;
}

static void *workspace_at(float *piece)
{
    return (char *)piece + (256 - (uintptr_t)piece % 256) % 256;
}

/* --- products ----------------------------------------------------------------------------------*/

static const struct pst_cuda_muon *find(const struct pst_device *device, uint64_t rows,
                                        uint64_t columns)
{
    for (uint32_t i = 0; i < device->n_muon; i++) {
        if (device->muon[i].rows == rows && device->muon[i].columns == columns) {
            return &device->muon[i];
        }
    }
    return NULL;
}

/* c [m,n] = op(a) op(b), dense. */
static struct pst_cuda_product_shape shape_of(uint64_t m, uint64_t n, uint64_t k,
                                              uint64_t free_floats)
{
    return (struct pst_cuda_product_shape){.m = m,
                                           .n = n,
                                           .k = k,
                                           .lda = k,
                                           .ldb = n,
                                           .ldd = n,
                                           .align = 64, /* of pieces of the room */
                                           .forgone = PST_CUDA_PRODUCT_BYTES -
                                                      workspace_bytes(free_floats)};
}

/* X of more rows than columns is turned: A = X^T X. Unfinished parts are zero. */
static pst_status make(struct pst_device *device, struct pst_cuda_muon *made, struct pst_error *err)
{
    const struct pst_muon_room room = pst_muon_room(made->rows, made->columns);
    const uint64_t side = room.side, elems = made->rows * made->columns;
    const bool tall = made->rows > made->columns;
    struct pst_cuda_product_shape gram = shape_of(side, side, elems / side, elems);
    const struct pst_cuda_product_shape square = shape_of(side, side, side, elems);
    const struct pst_cuda_product_shape step =
        shape_of(made->rows, made->columns, side, side * side);
    pst_status status;

    gram.a_transposed = tall;
    gram.b_transposed = !tall;
    gram.lda = gram.ldb = made->columns;
    status = pst_cuda_product_init(device, &gram, &made->gram, err);
    if (status == PST_OK) {
        status = pst_cuda_product_init(device, &square, &made->square, err);
    }
    return status == PST_OK ? pst_cuda_product_init(device, &step, &made->step, err) : status;
}

pst_status pst_cuda_muon_reserve(struct pst_device *device, const struct pst_graph *graph,
                                 struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < graph->n_params && status == PST_OK; i++) {
        const struct pst_parameter *parameter = &graph->params[i];

        if (parameter->muon == 0 || find(device, parameter->dims[0], parameter->dims[1]) != NULL) {
            continue;
        }
        device->muon = pst_resize(device->muon, device->n_muon + 1, sizeof *device->muon);
        device->muon[device->n_muon] =
            (struct pst_cuda_muon){.rows = parameter->dims[0], .columns = parameter->dims[1]};
        status = make(device, &device->muon[device->n_muon++], err);
    }
    return status;
}

void pst_cuda_muon_free(struct pst_device *device)
{
    for (uint32_t i = 0; i < device->n_muon; i++) {
        pst_cuda_product_finish(&device->muon[i].gram);
        pst_cuda_product_finish(&device->muon[i].square);
        pst_cuda_product_finish(&device->muon[i].step);
    }
    free(device->muon);
}

/* --- the update --------------------------------------------------------------------------------*/

static void iterate(const struct pst_device *device, const struct pst_cuda_muon *products, float *x,
                    const struct pst_muon_room *room)
{
    const bool tall = products->rows > products->columns;
    const uint64_t elems = products->rows * products->columns;
    float *next = x + room->next, *square = x + room->square, *other = x + room->other;

    pst_cuda_product_run(&products->gram, doing, square, x, x, 1, 0, workspace_at(next));
    pst_cuda_product_run(&products->square, doing, other, square, square, 1, 0, workspace_at(next));
    pst_cuda_muon_combine(device->compute, other, PST_MUON_C, square, PST_MUON_B,
                          room->side * room->side);
    pst_cuda_product_run(&products->step, doing, next, tall ? x : other, tall ? other : x, 1, 0,
                         workspace_at(square));
    pst_cuda_muon_combine(device->compute, x, PST_MUON_A, next, 1, elems);
}

void pst_cuda_muon(struct pst_device *device, const struct pst_update *update, float *weights,
                   const float *grad, float *slot, void *working, bool working_bf16)
{
    const struct pst_muon_room room = pst_muon_room(update->rows, update->columns);
    const struct pst_cuda_muon *products = find(device, update->rows, update->columns);
    const struct pst_update_factors *factors = pst_cuda_factors(device, update);
    const uint64_t elems = update->rows * update->columns;
    const struct pst_squared norm = {update->room, elems, device->squares};

    if (products == NULL || device->n_squares < pst_cuda_square_doubles(elems)) {
        pst_cuda_note(device, doing, cudaErrorInvalidValue); /* of no graph it has seen */
        return;
    }
    pst_cuda_muon_take(device->compute, factors, update->room, grad, slot, elems);
    pst_cuda_squares(device->compute, &norm, 1, device->squares);
    pst_cuda_muon_scale(device->compute, update->room, device->squares, elems);
    for (uint32_t i = 0; i < PST_MUON_STEPS; i++) {
        iterate(device, products, update->room, &room);
    }
    pst_cuda_muon_step(device->compute, factors, weights, update->room, update->factor, working,
                       working_bf16, elems);
    pst_cuda_note_launch(device, doing);
}
