/* SPDX-License-Identifier: Apache-2.0
 *
 * Small random graphs as bit masks, and what can be said of them by trying everything. For tests of
 * the searches over downsets. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_DOWNSETS_RIG_H
#define PENSTOCK_TESTS_DOWNSETS_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "downsets.h"

enum { MASK_NODES = 24, MASK_EDGES = MASK_NODES * (MASK_NODES - 1) / 2 };

struct mask_dag {
    struct part_dag dag;
    uint32_t from[MASK_EDGES], to[MASK_EDGES], in_edges[MASK_EDGES];
    uint32_t first_out[MASK_NODES + 1], first_in[MASK_NODES + 1];
    uint32_t needs[MASK_NODES]; /* predecessors, as a mask */
};

static inline uint64_t mask_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

static inline uint32_t mask_between(uint64_t *state, uint32_t low, uint32_t high)
{
    return low + (uint32_t)(mask_draw(state) % (high - low + 1));
}

/* From `needs`: edges in order. */
static inline void mask_index(struct mask_dag *g, uint32_t n)
{
    uint32_t u, v, e = 0;

    for (u = 0; u < n; u++) {
        g->first_out[u] = e;
        for (v = u + 1; v < n; v++) {
            if ((g->needs[v] >> u & 1) != 0) {
                g->from[e] = u;
                g->to[e++] = v;
            }
        }
    }
    g->first_out[n] = e;
    g->dag = (struct part_dag){n, e, g->from, g->to, g->first_out, g->first_in, g->in_edges};
    e = 0;
    for (v = 0; v < n; v++) {
        g->first_in[v] = e;
        for (u = 0; u < g->dag.n_edges; u++) {
            if (g->to[u] == v) {
                g->in_edges[e++] = u;
            }
        }
    }
    g->first_in[n] = e;
}

static inline void mask_chain(struct mask_dag *g, uint32_t n)
{
    uint32_t v;

    memset(g, 0, sizeof *g);
    for (v = 1; v < n; v++) {
        g->needs[v] = 1u << (v - 1);
    }
    mask_index(g, n);
}

/* Every edge with this chance in 100; `one_source`: all nodes are reachable from node 0. */
static inline void mask_random(struct mask_dag *g, uint32_t n, uint32_t chance, bool one_source,
                               uint64_t *state)
{
    uint32_t u, v;

    memset(g, 0, sizeof *g);
    for (v = 1; v < n; v++) {
        for (u = 0; u < v; u++) {
            if (mask_between(state, 1, 100) <= chance) {
                g->needs[v] |= 1u << u;
            }
        }
        if (one_source && g->needs[v] == 0) {
            g->needs[v] = 1u << mask_between(state, 0, v - 1);
        }
    }
    mask_index(g, n);
}

static inline bool mask_is_downset(const struct mask_dag *g, uint32_t mask)
{
    uint32_t v;

    for (v = 0; v < g->dag.n; v++) {
        if ((mask >> v & 1) != 0 && (g->needs[v] & ~mask) != 0) {
            return false;
        }
    }
    return true;
}

#endif
