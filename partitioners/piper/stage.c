/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <math.h>
#include <string.h>

static double way_time(const struct piper_question *q, const struct piper_way *way, uint32_t d)
{
    double sync = 0;

    if (q->sync_rate > 0) {
        sync = 4.0 * (d - 1) * way->weight / ((double)d * q->n_units * q->sync_rate);
    }
    return way->time / d + sync;
}

/* PST_NONE: the node has no way at this tensor degree. Of equals it is the one that holds least. */
static uint32_t fastest(const struct piper_question *q, uint32_t v, uint32_t tensor, uint32_t d)
{
    uint32_t w, best = PST_NONE;

    for (w = q->first_way[v]; w < q->first_way[v + 1]; w++) {
        double gain;

        if (q->ways[w].tensor != tensor) {
            continue;
        }
        gain = best == PST_NONE ? 1 : way_time(q, &q->ways[best], d) - way_time(q, &q->ways[w], d);
        if (gain > 0 || (gain == 0 && q->ways[w].in_flight + q->ways[w].fixed <
                                          q->ways[best].in_flight + q->ways[best].fixed)) {
            best = w;
        }
    }
    return best;
}

static void init_pair(struct piper_pair *pair, const struct piper_question *q, uint32_t tensor,
                      uint32_t degree)
{
    const struct part_downsets *sets = q->sets;
    double *room = call_alloc(4 * (size_t)q->dag->n + 1, sizeof *room);
    double *lacking = call_alloc(sets->n_sets, sizeof *lacking);
    uint32_t v, n = q->dag->n;

    pair->tensor = tensor;
    pair->degree = degree;
    CALL_TAKE(pair->time, sets->n_sets);
    CALL_TAKE(pair->in_flight, sets->n_sets);
    CALL_TAKE(pair->fixed, sets->n_sets);
    CALL_TAKE(pair->lacking, sets->n_sets);
    for (v = 0; v < n; v++) {
        uint32_t w = fastest(q, v, tensor, degree);

        if (w == PST_NONE) {
            room[3 * (size_t)n + v] = 1;
            continue;
        }
        room[v] = way_time(q, &q->ways[w], degree);
        room[n + v] = q->ways[w].in_flight;
        room[2 * (size_t)n + v] = q->ways[w].fixed;
    }
    part_downsets_sum(sets, room, pair->time);
    part_downsets_sum(sets, room + n, pair->in_flight);
    part_downsets_sum(sets, room + 2 * (size_t)n, pair->fixed);
    part_downsets_sum(sets, room + 3 * (size_t)n, lacking);
    for (v = 0; v < sets->n_sets; v++) {
        pair->lacking[v] = (uint32_t)lacking[v];
    }
}

/* Tensor degrees in ascending order, each with the degrees that divide the units and fit. */
static void init_pairs(struct piper_costs *c)
{
    const struct piper_question *q = c->q;
    uint32_t n_ways = q->first_way[q->dag->n], tensor = 0, w, k;

    CALL_TAKE(c->pairs, (size_t)n_ways * q->n_degrees + 1);
    for (;;) {
        uint32_t next = UINT32_MAX;

        for (w = 0; w < n_ways; w++) {
            if (q->ways[w].tensor > tensor && q->ways[w].tensor < next) {
                next = q->ways[w].tensor;
            }
        }
        if (next == UINT32_MAX) {
            return;
        }
        tensor = next;
        for (k = 0; k < q->n_degrees; k++) {
            uint32_t d = q->degrees[k];

            if (q->n_units % d == 0 && (uint64_t)d * tensor <= q->n_devices) {

                init_pair(&c->pairs[c->n_pairs++], q, tensor, d);
            }
        }
    }
}

static void sum_leaving(struct piper_costs *c)
{
    const struct part_downsets *sets = c->q->sets;
    const struct part_dag *dag = c->q->dag;
    uint32_t j, i, e;

    for (j = 1; j < sets->n_sets; j++) {
        double total = c->leaving[sets->parent[j]];

        for (i = sets->first_added[j]; i < sets->first_added[j + 1]; i++) {
            uint32_t v = sets->added[i];

            for (e = dag->first_out[v]; e < dag->first_out[v + 1]; e++) {
                total += c->q->edge_bytes[e];
            }
            for (e = dag->first_in[v]; e < dag->first_in[v + 1]; e++) {
                total -= c->q->edge_bytes[dag->in_edges[e]];
            }
        }
        c->leaving[j] = total;
    }
}

void piper_costs_init(struct piper_costs *c, const struct piper_question *q)
{
    uint32_t n = q->dag->n, v, w, x;

    memset(c, 0, sizeof *c);
    c->q = q;
    c->exact = true;
    CALL_TAKE(c->leaving, q->sets->n_sets);
    CALL_TAKE(c->skipping, q->sets->n_sets);
    CALL_TAKE(c->into, (size_t)n + 1);
    CALL_TAKE(c->nodes, (size_t)n + 1);
    CALL_TAKE(c->first, (size_t)n + 2);
    CALL_TAKE(c->options, (size_t)q->first_way[n] + 1);
    CALL_TAKE(c->option_way, (size_t)q->first_way[n] + 1);
    init_pairs(c);
    for (v = 0; v < n; v++) {
        for (w = q->first_way[v]; w < q->first_way[v + 1]; w++) {
            for (x = q->first_way[v]; x < w; x++) {
                c->choices = c->choices || q->ways[w].tensor == q->ways[x].tensor;
            }
        }
    }
    sum_leaving(c);
}

/* skipping[j] = bytes from set i to what is not in set j: what i sends to a node, less the nodes of
   j. Edges inside i end in every j that holds i. */
void piper_look_from(struct piper_costs *c, uint32_t i)
{
    const struct part_downsets *sets = c->q->sets;
    const struct part_dag *dag = c->q->dag;
    uint32_t n, x, j, e;

    if (c->q->transfer_rate <= 0) {
        return;
    }
    n = part_downsets_between(sets, 0, i, c->nodes);
    memset(c->into, 0, dag->n * sizeof *c->into);
    for (x = 0; x < n; x++) {
        for (e = dag->first_out[c->nodes[x]]; e < dag->first_out[c->nodes[x] + 1]; e++) {
            c->into[dag->to[e]] += c->q->edge_bytes[e];
        }
    }
    c->skipping[0] = 0;
    for (x = 0; x < dag->n; x++) {
        c->skipping[0] += c->into[x];
    }
    for (j = 1; j < sets->n_sets; j++) {
        c->skipping[j] = c->skipping[sets->parent[j]];
        for (x = sets->first_added[j]; x < sets->first_added[j + 1]; x++) {
            c->skipping[j] -= c->into[sets->added[x]];
        }
    }
}

static double transfers(const struct piper_costs *c, const struct piper_pair *pair, uint32_t i,
                        uint32_t j)
{
    double cut;

    if (c->q->transfer_rate <= 0) {
        return 0;
    }
    cut = c->leaving[i] + c->leaving[j] - 2 * c->skipping[j];
    return 2 * fmax(cut, 0) / (pair->degree * c->q->transfer_rate);
}

double piper_least_time(const struct piper_costs *c, const struct piper_pair *pair, uint32_t i,
                        uint32_t j)
{
    if (pair->lacking[j] != pair->lacking[i]) {
        return INFINITY;
    }
    return pair->time[j] - pair->time[i] + transfers(c, pair, i, j);
}

/* The knapsack over the nodes of a stage; way_of_option tells options apart. */
static uint32_t list_options(struct piper_costs *c, const struct piper_pair *pair, uint32_t n,
                             uint32_t held)
{
    const struct piper_question *q = c->q;
    uint32_t x, w, n_options = 0;

    for (x = 0; x < n; x++) {
        uint32_t v = c->nodes[x];

        c->first[x] = n_options;
        for (w = q->first_way[v]; w < q->first_way[v + 1]; w++) {
            if (q->ways[w].tensor == pair->tensor) {
                c->options[n_options] = (struct knapsack_option){
                    way_time(q, &q->ways[w], pair->degree),
                    q->ways[w].in_flight * held + q->ways[w].fixed,
                };
                c->option_way[n_options++] = w;
            }
        }
    }
    c->first[n] = n_options;
    return n_options;
}

static double set_aside(const struct piper_costs *c, uint32_t n)
{
    double most = 0;
    uint32_t x;

    for (x = 0; c->q->workspace != NULL && x < n; x++) {
        most = fmax(most, c->q->workspace[c->nodes[x]]);
    }
    return most;
}

void piper_stage_time(struct piper_costs *c, const struct piper_pair *pair, uint32_t i, uint32_t j,
                      uint32_t held, double *ret_time, uint32_t *ret_way, double *ret_bytes)
{
    const struct piper_question *q = c->q;
    double bytes =
        (pair->in_flight[j] - pair->in_flight[i]) * held + pair->fixed[j] - pair->fixed[i];
    double limit = q->capacity * (1 + 1e-12), aside = 0, time;
    uint32_t n = 0, x, *choice = NULL;
    bool exact;

    *ret_time = INFINITY;
    if (pair->lacking[j] != pair->lacking[i]) {
        return;
    }
    if (q->workspace != NULL || ret_way != NULL) {
        n = part_downsets_between(q->sets, i, j, c->nodes);
        aside = set_aside(c, n);
    }
    if (bytes + aside <= limit && ret_way == NULL) {
        *ret_time = piper_least_time(c, pair, i, j);
        return;
    }
    if (!c->choices && ret_way == NULL) {
        return;
    }
    n = part_downsets_between(q->sets, i, j, c->nodes);
    list_options(c, pair, n, held);
    if (ret_way != NULL) {
        CALL_TAKE(choice, (size_t)n + 1);
    }
    knapsack_solve(n, c->first, c->options, limit - aside, &time, choice, &exact);
    c->exact = c->exact && exact;
    *ret_time = time + transfers(c, pair, i, j);
    for (x = 0, bytes = aside; ret_way != NULL && x < n && !isinf(time); x++) {
        ret_way[c->nodes[x]] = c->option_way[choice[x]];
        bytes += c->options[choice[x]].bytes;
    }
    if (ret_bytes != NULL) {
        *ret_bytes = bytes;
    }
}
