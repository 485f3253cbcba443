/* SPDX-License-Identifier: Apache-2.0 */
#include "front.h"

#include <stdlib.h>

#include "map.h"

static bool as_good(const struct dapple_way *a, const struct dapple_way *b, bool stages)
{
    double slack = DAPPLE_SAME * b->tail.passes;

    return a->tail.passes <= b->tail.passes + slack && a->tail.hold <= b->tail.hold + slack &&
           a->tail.sync <= b->tail.sync + slack && (!stages || a->n_stages <= b->n_stages);
}

void dapple_front_add(struct dapple_front *front, const struct dapple_way *way, bool stages)
{
    size_t i, n = 0;

    for (i = 0; i < front->n; i++) {
        const struct dapple_way *other = &front->ways[i];

        if (as_good(other, way, stages) &&
            (other->n_stages <= way->n_stages || !as_good(way, other, stages))) {
            return;
        }
    }
    for (i = 0; i < front->n; i++) {
        if (!as_good(way, &front->ways[i], stages)) {
            front->ways[n++] = front->ways[i];
        }
    }
    front->n = n;
    part_grow(&front->ways, sizeof *front->ways, n + 1, &front->room);
    front->ways[front->n++] = *way;
}

static int by_value(const void *a_, const void *b_)
{
    const struct dapple_way *a = a_, *b = b_;

    if (a->value != b->value) {
        return a->value < b->value ? -1 : 1;
    }
    if (a->tail.hold != b->tail.hold) {
        return a->tail.hold < b->tail.hold ? -1 : 1;
    }
    return a->tail.passes < b->tail.passes ? -1 : a->tail.passes > b->tail.passes;
}

void dapple_front_narrow(struct dapple_front *front, uint32_t most, bool stages)
{
    size_t i, j, n = 0;

    if (most == 0 || front->n <= most) {
        return;
    }
    qsort(front->ways, front->n, sizeof *front->ways, by_value);
    for (i = 0; i < front->n; i++) {
        uint32_t alike = 0;

        for (j = 0; j < n; j++) {
            alike += !stages || front->ways[j].n_stages == front->ways[i].n_stages;
        }
        if (alike < most) {
            front->ways[n++] = front->ways[i];
        }
    }
    front->n = n;
}
