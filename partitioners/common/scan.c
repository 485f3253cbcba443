/* SPDX-License-Identifier: Apache-2.0
 *
 * Is there a cut at T, with everything counted: memory by the later stages, edges that span whole
 * stages? Looks at every range that compute time allows. By number of stages where memory or their
 * number is limited.
 */

#include "chain_line.h"

struct scan {
    uint32_t n_layers;
    uint32_t *devices[2]; /* [n + 1] least devices for the suffix, of this layer and the last */
    uint32_t *next;       /* [n_layers * (n + 1)] where the first stage of the suffix ends */
    uint16_t *degree;     /* the same: its degree index */
    int64_t *transfers;   /* [degrees] of the range at hand */
    uint64_t looks;       /* ranges */
};

static uint32_t layers_of(const struct line *l)
{
    return l->layered ? l->max_stages : 1;
}

double scan_steps(const struct line *l, int64_t ticks)
{
    double steps = 0;
    uint32_t j, k, i = 0;

    for (j = 1; j <= l->n; j++) {
        for (; i < j; i++) {
            for (k = 0; k < l->n_degrees && !line_works(l, i, j, k, ticks); k++) {
            }
            if (k < l->n_degrees) {
                break;
            }
        }
        steps += j - i + 1;
    }
    return steps * l->n_degrees * layers_of(l);
}

/* The range grows by the node at position at. */
static void take_in(const struct line *l, struct scan *s, uint32_t first, uint32_t at)
{
    const struct part_problem *p = l->problem;
    uint32_t v = l->order[at], i, k;

    for (i = p->first_out[v]; i < p->first_out[v + 1]; i++) {
        for (k = 0; k < l->n_degrees; k++) {
            s->transfers[k] += l->costs->p2p[k][i];
        }
    }
    for (i = p->first_in[v]; i < p->first_in[v + 1]; i++) {
        uint32_t e = p->in_edges[i];
        bool inside = l->position[p->from[e]] >= first;

        for (k = 0; k < l->n_degrees; k++) {
            s->transfers[k] += inside ? -l->costs->p2p[k][e] : l->costs->p2p[k][e];
        }
    }
}

static bool within(const struct line *l, const struct scan *s, uint32_t i, uint32_t j, uint32_t k,
                   int64_t ticks)
{
    return part_tps(l->costs, l->work[k][j] - l->work[k][i], l->cross == NULL ? 0 : s->transfers[k],
                    l->sync == NULL ? 0 : l->sync[k][j] - l->sync[k][i]) <= ticks;
}

/* May a stage be [i, j), but for transfers? Then every part of it may. */
static bool is_possible(const struct line *l, uint32_t i, uint32_t j, uint32_t layer, int64_t ticks)
{
    uint32_t k;

    for (k = 0; k < l->n_degrees; k++) {
        if (line_works(l, i, j, k, ticks) && line_fits(l, i, j, k, layer + 1)) {
            return true;
        }
    }
    return false;
}

/* The best first stage of the suffix from i, with `layer` stages after it; behind[j]: devices of
   the suffix from j, where there is one: not before `nearest`. */
static uint32_t best_first(const struct line *l, struct scan *s, uint32_t i, uint32_t layer,
                           const uint32_t *behind, uint32_t nearest, int64_t ticks)
{
    size_t at = (size_t)layer * (l->n + 1) + i;
    uint32_t j, k, best = UINT32_MAX;

    if (nearest > i && !is_possible(l, i, nearest, layer, ticks)) {
        return best;
    }
    s->looks++;
    for (k = 0; k < l->n_degrees; k++) {
        s->transfers[k] = 0;
    }
    for (j = i + 1; j <= l->n; j++) {
        bool possible = false;

        s->looks++;
        if (l->cross != NULL) {
            take_in(l, s, i, j - 1);
        }
        if (j < nearest) {
            continue; /* as possible as all of it, and nothing is after it */
        }
        for (k = 0; k < l->n_degrees; k++) {
            uint32_t d = l->costs->degrees[k];

            if (!line_works(l, i, j, k, ticks) || !line_fits(l, i, j, k, layer + 1)) {
                continue;
            }
            possible = true;
            if (behind[j] <= l->max_devices && behind[j] + d <= l->max_devices &&
                behind[j] + d < best && within(l, s, i, j, k, ticks)) {
                best = behind[j] + d;
                s->next[at] = j;
                s->degree[at] = (uint16_t)k;
            }
        }
        if (!possible) {
            break;
        }
    }
    return best;
}

static void read_cuts(const struct line *l, const struct scan *s, uint32_t layer, struct cuts *cuts)
{
    uint32_t at = 0;

    cuts->n = 0;
    while (at < l->n) {
        size_t row = (size_t)layer * (l->n + 1) + at;

        cuts->first[cuts->n] = at;
        cuts->k[cuts->n++] = s->degree[row];
        at = s->next[row];
        layer -= layer > 0;
    }
    cuts->first[cuts->n] = l->n;
}

static void run(struct probe *probe, int64_t ticks, bool *ret_found, struct cuts *cuts)
{
    const struct line *l = probe->line;
    struct scan *s = probe->scratch;
    uint32_t layer, i, nearest = l->n;

    *ret_found = false;
    for (i = 0; i <= l->n; i++) {
        s->devices[0][i] = i == l->n ? 0 : UINT32_MAX;
    }
    for (layer = 0; layer < s->n_layers && nearest < UINT32_MAX; layer++) {
        const uint32_t *behind = s->devices[layer % 2];
        uint32_t *mine = l->layered ? s->devices[(layer + 1) % 2] : s->devices[0];
        uint32_t reached = UINT32_MAX;

        mine[l->n] = l->layered ? UINT32_MAX : 0;
        for (i = l->n; i-- > 0;) {
            mine[i] = best_first(l, s, i, layer, behind, l->layered ? nearest : i, ticks);
            reached = mine[i] < UINT32_MAX ? i : reached;
            if (i % 64 == 0) {
                call_go_on(l->problem->host);
            }
        }
        nearest = reached;
        probe->stats->states += s->looks;
        s->looks = 0;
        if (mine[0] <= l->max_devices) {
            *ret_found = true;
            read_cuts(l, s, layer, cuts);
            return;
        }
    }
}

void scan_init(struct probe *probe)
{
    const struct line *l = probe->line;
    struct scan *s = call_alloc(1, sizeof *s);
    size_t n = (size_t)l->n + 1;

    probe->run = run;
    probe->scratch = s;
    s->n_layers = layers_of(l);
    CALL_TAKE(s->devices[0], n);
    CALL_TAKE(s->devices[1], n);
    CALL_TAKE(s->next, n * s->n_layers);
    CALL_TAKE(s->degree, n * s->n_layers);
    CALL_TAKE(s->transfers, (size_t)l->n_degrees + 1);
}
