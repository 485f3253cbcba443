/* SPDX-License-Identifier: Apache-2.0
 *
 * Muon's update of a matrix: momentum, five steps of a Newton-Schulz iteration that takes its
 * singular values close to 1, the step along what that makes. Products are oneDNN's, or plain C
 * with run.kernels = "reference"; the order of sums follows from the shape alone.
 */
#include <math.h>

#include "dnnl_gemm.h"

struct muon {
    const struct pst_device *device;
    struct pst_update_factors factors;
    const float *grad;
    float *weights, *slot, *x, *next, *square, *other;
    uint64_t rows, columns, side;
    float scale; /* what a pass over elements multiplies with */
};

/* A stretch of elements. */
typedef void stretch_work(const struct muon *m, uint64_t begin, uint64_t end);

struct stretches {
    const struct muon *m;
    stretch_work *work;
};

static void work_on_stretch(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct stretches *stretches = context;

    (void)thread;
    stretches->work(stretches->m, begin, end);
}

static void each(const struct muon *m, uint64_t n, stretch_work *work)
{
    struct stretches stretches = {m, work};

    pst_cpu_parallel(m->device, n, work_on_stretch, &stretches);
}

static void take_gradient(const struct muon *m, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        m->x[i] = pst_muon_element(&m->factors, m->grad[i], &m->slot[i]);
    }
}

static void scale(const struct muon *m, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        m->x[i] *= m->scale;
    }
}

static void combine_squares(const struct muon *m, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        m->other[i] = PST_MUON_B * m->square[i] + PST_MUON_C * m->other[i];
    }
}

static void combine(const struct muon *m, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        m->x[i] = PST_MUON_A * m->x[i] + m->next[i];
    }
}

static void step(const struct muon *m, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        m->weights[i] = m->weights[i] * m->factors.shrink - m->scale * m->x[i];
    }
}

/* c [m,n] = op(a) op(b), dense and row-major. */
struct product {
    bool a_turned, b_turned;
    uint64_t m, n, k;
    const float *a, *b;
    float *c;
};

static void plain_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct product *p = context;

    (void)thread;
    for (uint64_t i = begin; i < end; i++) {
        for (uint64_t j = 0; j < p->n; j++) {
            float sum = 0;

            for (uint64_t k = 0; k < p->k; k++) {
                sum += p->a[p->a_turned ? k * p->m + i : i * p->k + k] *
                       p->b[p->b_turned ? j * p->k + k : k * p->n + j];
            }
            p->c[i * p->n + j] = sum;
        }
    }
}

static void multiply(const struct muon *m, struct product p)
{
    if (m->device->reference) {
        pst_cpu_parallel(m->device, p.m, plain_rows, &p);
    } else {
        const struct pst_gemm gemm = {.shape = {.dtype = PST_F32,
                                                .trans_a = p.a_turned,
                                                .trans_b = p.b_turned,
                                                .m = (int64_t)p.m,
                                                .n = (int64_t)p.n,
                                                .k = (int64_t)p.k,
                                                .lda = (int64_t)(p.a_turned ? p.m : p.k),
                                                .ldb = (int64_t)(p.b_turned ? p.k : p.n),
                                                .ldc = (int64_t)p.n}};

        pst_gemm_run(&gemm, p.a, p.b, p.c, NULL);
    }
}

/* X of more rows than columns is turned: A = X^T X. */
static void iterate(const struct muon *m)
{
    const bool tall = m->rows > m->columns;
    const uint64_t elems = m->rows * m->columns, side = m->side;
    const uint64_t longer = tall ? m->rows : m->columns;

    multiply(m, (struct product){tall, !tall, side, side, longer, m->x, m->x, m->square});
    multiply(m, (struct product){false, false, side, side, side, m->square, m->square, m->other});
    each(m, side * side, combine_squares);
    multiply(m, (struct product){false, false, m->rows, m->columns, side, tall ? m->x : m->other,
                                 tall ? m->other : m->x, m->next});
    each(m, elems, combine);
}

void pst_cpu_muon(struct pst_device *device, const struct pst_update *update, float *weights,
                  const float *grad, float *slot)
{
    const struct pst_muon_room room = pst_muon_room(update->rows, update->columns);
    const uint64_t elems = update->rows * update->columns;
    struct muon m = {
        .device = device,
        .factors = pst_update_factors(update),
        .grad = grad,
        .weights = weights,
        .slot = slot,
        .x = update->room,
        .next = update->room + room.next,
        .square = update->room + room.square,
        .other = update->room + room.other,
        .rows = update->rows,
        .columns = update->columns,
        .side = room.side,
    };

    each(&m, elems, take_gradient);
    m.scale = (float)(1 / fmax(sqrt(pst_cpu_square_sum(device, m.x, elems)), PST_MUON_EPS));
    each(&m, elems, scale);
    for (uint32_t i = 0; i < PST_MUON_STEPS; i++) {
        iterate(&m);
    }
    m.scale = update->lr * update->factor;
    each(&m, elems, step);
}
