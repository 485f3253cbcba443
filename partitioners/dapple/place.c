/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <string.h>

struct dapple_machines dapple_machines_of(uint32_t n_devices, uint32_t size)
{
    if (size == 0 || size > n_devices) {
        size = n_devices;
    }
    return (struct dapple_machines){(n_devices + size - 1) / size, size, n_devices};
}

static uint32_t room(const struct dapple_machines *m, uint32_t machine)
{
    uint32_t rest = m->n_devices - machine * m->size;

    return rest < m->size ? rest : m->size;
}

/* Fills machines of one kind in order; returns what is left to take. */
static uint32_t fill(const struct dapple_machines *m, const uint16_t *used, bool in_use, uint32_t d,
                     uint16_t *ret_used)
{
    uint32_t i;

    for (i = 0; i < m->n_machines && d > 0; i++) {
        uint32_t free_ = room(m, i) - ret_used[i], take = free_ < d ? free_ : d;

        if ((used[i] > 0) == in_use) {
            ret_used[i] = (uint16_t)(ret_used[i] + take);
            d -= take;
        }
    }
    return d;
}

static uint32_t scatter(const struct dapple_machines *m, const uint16_t *used, uint32_t d,
                        uint16_t *ret_used)
{
    uint32_t i, before = d + 1;

    while (d > 0 && d < before) {
        before = d;
        for (i = 0; i < m->n_machines && d > 0; i++) {
            if (used[i] > 0 && ret_used[i] < room(m, i)) {
                ret_used[i]++;
                d--;
            }
        }
    }
    return d;
}

bool dapple_place(const struct dapple_machines *m, const uint16_t *used, uint32_t d,
                  uint32_t policy, uint16_t *ret_used, uint32_t *ret_machine)
{
    uint32_t i, n = 0;

    memcpy(ret_used, used, m->n_machines * sizeof *used);
    if (policy == DAPPLE_FRESH) {
        d = fill(m, used, false, d, ret_used);
        d = fill(m, used, true, d, ret_used);
    } else {
        if (policy == DAPPLE_SCATTER) {
            d = scatter(m, used, d, ret_used);
        } else {
            d = fill(m, used, true, d, ret_used);
        }
        d = fill(m, used, false, d, ret_used);
    }
    *ret_machine = UINT32_MAX;
    for (i = 0; i < m->n_machines; i++) {
        if (ret_used[i] != used[i]) {
            *ret_machine = i;
            n++;
        }
    }
    if (n > 1) {
        *ret_machine = UINT32_MAX;
    }
    return d == 0;
}

uint32_t dapple_ranks(const struct dapple_machines *m, const uint16_t *before,
                      const uint16_t *after, uint32_t *ret_ranks)
{
    uint32_t i, k, n = 0;

    for (i = 0; i < m->n_machines; i++) {
        for (k = before[i]; k < after[i]; k++) {
            ret_ranks[n++] = i * m->size + k;
        }
    }
    return n;
}
