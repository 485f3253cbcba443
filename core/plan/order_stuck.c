/* SPDX-License-Identifier: Apache-2.0
 *
 * An order that cannot be satisfied: from a device that waits to the one that it waits for, until a
 * device comes again or what is needed is in no list.
 */
#include "plan/order_work.h"

#include <stdio.h>

uint32_t pst_order_device(const struct pst_order_work *w, uint32_t node)
{
    uint32_t low = 0, high = w->in->n_devices; /* first_node[low] <= node < first_node[high] */

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (w->first_node[middle] <= node) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void name_slot(const struct pst_order_work *w, uint64_t slot, char *text, size_t size)
{
    static const char *const kinds[KINDS] = {"F", "B", "W", "R"};
    uint32_t s = 0;

    while (s + 1 < w->in->n_stages && w->first_slot[s + 1] <= slot) {
        s++;
    }
    slot -= w->first_slot[s];
    snprintf(text, size, "%s of micro-batch %u on stage %u", kinds[slot % KINDS],
             (uint32_t)(slot / KINDS), s);
}

/* The device that holds up `device`; PST_NONE: what it needs is in no list. */
static uint32_t blocker(const struct pst_order_work *w, uint32_t device)
{
    uint32_t node = w->node_of[w->fronts[device].waits_for];

    return node == PST_NONE ? PST_NONE : pst_order_device(w, node);
}

pst_status pst_order_stuck(const struct pst_order_work *w, struct pst_error *err)
{
    char needed[96], own[96];
    uint32_t d = 0, first, i;
    pst_status st = pst_fail(err, PST_ERR_BUG, "plan.illegal",
                             "the order of passes can never be satisfied: devices wait for each "
                             "other in a circle");

    while (w->fronts[d].waits_for == PST_NONE) {
        d++;
    }
    /* Everyone who waits is followed by one other; after n steps it is within a circle. */
    for (i = 0; i < w->in->n_devices && blocker(w, d) != PST_NONE; i++) {
        d = blocker(w, d);
    }
    first = d;
    do {
        const struct pst_order_front *front = &w->fronts[d];
        const struct pst_pass *pass = &w->passes[d][front->position];

        name_slot(w, front->waits_for, needed, sizeof needed);
        name_slot(w, pst_order_slot(w, pass->stage, pass->microbatch, pst_order_kinds[pass->op]),
                  own, sizeof own);
        if (blocker(w, d) == PST_NONE) {
            pst_fail(err, PST_ERR_BUG, "plan.illegal",
                     "the order of passes can never be satisfied: %s waits for %s, which is in no "
                     "list",
                     own, needed);
            break;
        }
        pst_error_detail(err, "device %u: %s waits for %s on device %u, which has that behind\n", d,
                         own, needed, blocker(w, d));
        d = blocker(w, d);
    } while (d != first);
    return st;
}
