/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements of tensors go together where shapes differ: operands that spread over a result as
 * in numpy, axes that are summed, permuted, cut. A walk goes through the elements of a sample in
 * order; axes that all sides keep together are made one.
 */
#ifndef PST_COMMON_BROADCAST_H
#define PST_COMMON_BROADCAST_H

#include <string.h>

#include "base/philox.h"
#include "device/common/request.h"

#define PST_SPREAD_SIDES 3

/* Element i of the walk is element i of whoever gives the axes and some element of each side. */
struct pst_spread {
    uint32_t rank, n_sides;
    uint64_t dims[PST_MAX_RANK];
    uint64_t stride[PST_SPREAD_SIDES][PST_MAX_RANK]; /* in elements; 0: the same one again */
};

/* Appends an axis inside of those that are there, in one with the last where that is possible. */
static inline void pst_spread_axis(struct pst_spread *spread, uint64_t n, const uint64_t *stride)
{
    const uint32_t last = spread->rank - 1;
    bool together = spread->rank > 0;

    if (n == 1) {
        return;
    }
    for (uint32_t i = 0; i < spread->n_sides && together; i++) {
        together = spread->stride[i][last] == stride[i] * n;
    }
    if (!together) {
        spread->rank++;
        spread->dims[spread->rank - 1] = 1;
    }
    spread->dims[spread->rank - 1] *= n;
    for (uint32_t i = 0; i < spread->n_sides; i++) {
        spread->stride[i][spread->rank - 1] = stride[i];
    }
}

/* Elements of the walk; the length of its last axis. */
PST_HD uint64_t pst_spread_elems(const struct pst_spread *spread)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < spread->rank; i++) {
        n *= spread->dims[i];
    }
    return n;
}

PST_HD uint64_t pst_spread_row(const struct pst_spread *spread)
{
    return spread->rank == 0 ? 1 : spread->dims[spread->rank - 1];
}

PST_HD uint64_t pst_spread_step(const struct pst_spread *spread, uint32_t side)
{
    return spread->rank == 0 ? 0 : spread->stride[side][spread->rank - 1];
}

/* Where element i of the walk lies on a side. */
PST_HD uint64_t pst_spread_at(const struct pst_spread *spread, uint32_t side, uint64_t i)
{
    uint64_t at = 0;

    for (uint32_t axis = spread->rank; axis-- > 0;) {
        at += i % spread->dims[axis] * spread->stride[side][axis];
        i /= spread->dims[axis];
    }
    return at;
}

/* Elements of a tensor from one place of its axis i, counted from the last, to the next. */
static inline uint64_t pst_axis_stride(const struct pst_tensor *tensor, uint32_t i)
{
    uint64_t stride = 1;

    for (uint32_t k = 0; k < i; k++) {
        stride *= tensor->dims[tensor->rank - 1 - k];
    }
    return stride;
}

/* Axis i, counted from the last, of a tensor that spreads: its length and stride. */
static inline uint64_t pst_axis_length(const struct pst_tensor *tensor, uint32_t i)
{
    return i < tensor->rank ? tensor->dims[tensor->rank - 1 - i] : 1;
}

static inline uint64_t pst_axis_spread(const struct pst_tensor *tensor, uint32_t i)
{
    return pst_axis_length(tensor, i) == 1 ? 0 : pst_axis_stride(tensor, i);
}

/* Through the elements of y[0] but its last `skip` axes; the sides are the inputs. */
static inline struct pst_spread request_spread(const struct pst_op_request *request, uint32_t skip)
{
    const struct pst_tensor *y = request_out(request);
    struct pst_spread spread;

    memset(&spread, 0, sizeof spread);
    spread.n_sides = request->op->n_in;
    for (uint32_t i = y->rank; i-- > skip;) {
        uint64_t stride[PST_SPREAD_SIDES];

        for (uint32_t k = 0; k < spread.n_sides; k++) {
            stride[k] = pst_axis_spread(request_in(request, k), i);
        }
        pst_spread_axis(&spread, pst_axis_length(y, i), stride);
    }
    return spread;
}

/* In a walk of request_spread, element e of side k is part of the results at pst_spread_at(kept, 0,
   e) + pst_spread_at(others, 0, i) for all i. */
static inline void pst_spread_turn(const struct pst_spread *spread, uint32_t k,
                                   struct pst_spread *ret_kept, struct pst_spread *ret_others)
{
    uint64_t stride[PST_MAX_RANK], all = 1;

    for (uint32_t i = spread->rank; i-- > 0;) {
        stride[i] = all;
        all *= spread->dims[i];
    }
    memset(ret_kept, 0, sizeof *ret_kept);
    memset(ret_others, 0, sizeof *ret_others);
    ret_kept->n_sides = ret_others->n_sides = 1;
    for (uint32_t i = 0; i < spread->rank; i++) {
        pst_spread_axis(spread->stride[k][i] == 0 ? ret_others : ret_kept, spread->dims[i],
                        &stride[i]);
    }
}

/* Walks the axes of x[0] that a reduction keeps, or the others; side 0 is x[0]. */
static inline struct pst_spread request_reduced(const struct pst_op_request *request, bool others)
{
    const struct pst_tensor *x = request_in(request, 0);
    struct pst_spread spread;

    memset(&spread, 0, sizeof spread);
    spread.n_sides = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        const uint64_t stride = pst_axis_stride(x, i);

        if (((request->op->axes >> i & 1) != 0) == others) {
            pst_spread_axis(&spread, pst_axis_length(x, i), &stride);
        }
    }
    return spread;
}

/* One axis of a tensor: it has outer * n * inner elements. */
struct pst_axis {
    uint64_t outer, n, inner;
};

static inline struct pst_axis pst_axis_of(const struct pst_tensor *tensor, uint32_t i)
{
    struct pst_axis axis;

    axis.n = pst_axis_length(tensor, i);
    axis.inner = pst_axis_stride(tensor, i);
    axis.outer = tensor->elems / (axis.n * axis.inner);
    return axis;
}

/* The last axis of a result of strided, and the axis of x[0] that it goes along. */
struct pst_strided {
    uint64_t n, limit, stride; /* stride: elements from one place to the next */
    int64_t start, step;
    bool whole; /* no place is beyond the axis */
};

static inline struct pst_strided request_strided(const struct pst_op_request *request)
{
    const struct pst_form *form = request->op->form;
    const struct pst_tensor *x = request_in(request, 0);
    const uint32_t last = form->rank - 1;
    struct pst_strided row = {1, 1, 1, 0, 0, true};
    int64_t end;

    if (form->rank > 0) {
        row.n = form->dims[last];
        row.limit = x->dims[form->from[last]];
        row.stride = pst_axis_stride(x, x->rank - 1 - form->from[last]);
        row.start = form->start[last];
        row.step = form->step[last];
        end = row.start + (int64_t)(row.n - 1) * row.step;
        row.whole = row.start >= 0 && end >= 0 && (uint64_t)row.start < row.limit &&
                    (uint64_t)end < row.limit;
    }
    return row;
}

/* Where, by its other axes, row r of a sample's result lies in x[0]; false: it is filled in. */
static inline bool request_strided_row(const struct pst_op_request *request, uint64_t r,
                                       uint64_t *ret_at)
{
    const struct pst_form *form = request->op->form;
    const struct pst_tensor *x = request_in(request, 0);
    uint64_t at = 0;

    for (uint32_t axis = form->rank == 0 ? 0 : form->rank - 1; axis-- > 0;) {
        const int64_t place =
            form->start[axis] + (int64_t)(r % form->dims[axis]) * form->step[axis];
        const uint32_t from = form->from[axis];

        if (place < 0 || (uint64_t)place >= x->dims[from]) {
            return false;
        }
        at += (uint64_t)place * pst_axis_stride(x, x->rank - 1 - from);
        r /= form->dims[axis];
    }
    *ret_at = at;
    return true;
}

/* Element i of a row that lies at `at`; false: it is filled in. */
static inline bool pst_strided_at(const struct pst_strided *row, uint64_t at, uint64_t i,
                                  uint64_t *ret_at)
{
    const int64_t place = row->start + (int64_t)i * row->step;

    *ret_at = at + (uint64_t)place * row->stride;
    return row->whole || (place >= 0 && (uint64_t)place < row->limit);
}

/* Rows, columns and what is summed over, of a product; elements from one to the next. */
struct pst_matmul {
    uint64_t m, n, k;
    uint64_t a_m, a_k, b_k, b_n;
};

static inline struct pst_matmul request_matmul(const struct pst_op_request *request)
{
    const struct pst_tensor *a = request_in(request, 0);
    const bool *swapped = request->op->swapped;
    struct pst_matmul p;

    p.m = pst_axis_length(request_out(request), 1);
    p.n = pst_axis_length(request_out(request), 0);
    p.k = pst_axis_length(a, swapped[0] ? 1 : 0);
    p.a_m = swapped[0] ? 1 : p.k;
    p.a_k = swapped[0] ? p.m : 1;
    p.b_k = swapped[1] ? 1 : p.n;
    p.b_n = swapped[1] ? p.k : 1;
    return p;
}

/* The product that is the gradient of factor k as it is stored: of dy and the other factor.
 */
static inline struct pst_matmul pst_matmul_back(const struct pst_matmul *p, const struct pst_op *op,
                                                uint32_t k)
{
    const struct pst_matmul da = {p->m, p->k, p->n, p->n, 1, p->b_n, p->b_k}; /* dy b^T */
    const struct pst_matmul db = {p->k, p->n, p->m, p->a_k, p->a_m, p->n, 1}; /* a^T dy */
    const struct pst_matmul back = k == 0 ? da : db;
    const struct pst_matmul turned = {back.n,   back.m,   back.k,  back.b_n,
                                      back.b_k, back.a_k, back.a_m};

    return op->swapped[k] ? turned : back;
}

/* Is dy the left factor of it? */
static inline bool pst_matmul_dy_left(const struct pst_op *op, uint32_t k)
{
    return (k == 0) != op->swapped[k];
}

#endif
