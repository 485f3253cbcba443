/* SPDX-License-Identifier: Apache-2.0
 *
 * C(s, t, m) for all ranges of layers, and the replays that give one of its values.
 */
#include "chain.h"

#include "mem_plugin.h"

/* Bytes in slots, rounded up; more than there are: one more. */
static uint32_t slots_of(const struct rotor_tables *tables, uint64_t bytes)
{
    __extension__ typedef unsigned __int128 wide;
    wide n = (wide)bytes * tables->slots;

    n = (n + tables->unit_of - 1) / tables->unit_of;
    return n > tables->slots ? tables->slots + 1 : (uint32_t)n;
}

static void load(struct rotor_tables *tables, const struct rotor_chain *chain)
{
    tables->forward[0] = 0;
    for (uint32_t l = 0; l < chain->n; l++) {
        const struct rotor_layer *layer = &chain->layers[l];

        tables->x[l] = slots_of(tables, layer->x);
        tables->gradient[l] = slots_of(tables, layer->gradient);
        tables->saved[l] = slots_of(tables, layer->saved);
        tables->save_peak[l] = slots_of(tables, layer->save_peak);
        tables->pass_peak[l] = slots_of(tables, layer->pass_peak);
        tables->back_peak[l] = slots_of(tables, layer->back_peak);
        tables->forward[l + 1] = tables->forward[l] + layer->forward_ns;
        tables->backward[l] = layer->backward_ns;
    }
    for (uint32_t i = 0; i < chain->n; i++) {
        uint32_t most = tables->pass_peak[i];

        tables->passes[i][i + 1] = most;
        for (uint32_t q = i + 1; q < chain->n; q++) {
            uint32_t slots = tables->x[q - 1] + tables->pass_peak[q];

            most = slots > most ? slots : most;
            tables->passes[i][q + 1] = most;
        }
    }
}

/* Least slots of "all" for s, t's gradient waiting. */
static uint32_t all_slots(const struct rotor_tables *tables, uint32_t s, uint32_t t)
{
    uint32_t forward = tables->gradient[t] + tables->save_peak[s];
    uint32_t least = forward > tables->back_peak[s] ? forward : tables->back_peak[s];

    return least > tables->saved[s] ? least : tables->saved[s];
}

static uint64_t layer_ns(const struct rotor_tables *tables, uint32_t s)
{
    return tables->forward[s + 1] - tables->forward[s] + tables->backward[s];
}

ROTOR_WIDE static void fill_row(const struct rotor_tables *tables, uint32_t s, uint32_t t)
{
    uint64_t *row = rotor_row(tables, s, t);

    for (uint32_t m = 0; m <= tables->slots; m++) {
        row[m] = ROTOR_NEVER;
    }
    for (uint32_t m = all_slots(tables, s, t); m <= tables->slots; m++) {
        row[m] =
            layer_ns(tables, s) + (s < t ? rotor_row(tables, s + 1, t)[m - tables->saved[s]] : 0);
    }
    for (uint32_t j = s + 1; j <= t; j++) {
        const uint64_t *right = rotor_row(tables, j, t), *left = rotor_row(tables, s, j - 1);
        uint64_t ns = tables->forward[j] - tables->forward[s];
        uint32_t x = tables->x[j - 1], most = tables->gradient[t] + tables->passes[s][j];

        for (uint32_t m = most > x ? most : x; m <= tables->slots; m++) {
            uint64_t sum = ns + right[m - x] + left[m];

            row[m] = sum < row[m] ? sum : row[m];
        }
    }
    for (uint32_t m = 0; m <= tables->slots; m++) {
        row[m] = row[m] > ROTOR_NEVER ? ROTOR_NEVER : row[m];
    }
}

void rotor_tables_fill(struct rotor_tables *tables, const struct rotor_chain *chain,
                       const struct pst_host *host)
{
    load(tables, chain);
    for (uint32_t t = 0; t < tables->n; t++) {
        for (uint32_t s = t + 1; s-- > 0;) {
            call_go_on(host);
            fill_row(tables, s, t);
        }
    }
}

/* The j of "ck j" that the value comes from, the first of several; s: "all". */
static uint32_t choice(const struct rotor_tables *tables, uint32_t s, uint32_t t, uint32_t m)
{
    uint64_t best = rotor_row(tables, s, t)[m];

    if (m >= all_slots(tables, s, t) &&
        best ==
            layer_ns(tables, s) + (s < t ? rotor_row(tables, s + 1, t)[m - tables->saved[s]] : 0)) {
        return s;
    }
    for (uint32_t j = s + 1; j <= t; j++) {
        uint32_t x = tables->x[j - 1];

        if (m >= tables->gradient[t] + tables->passes[s][j] && m >= x &&
            best == tables->forward[j] - tables->forward[s] + rotor_row(tables, j, t)[m - x] +
                        rotor_row(tables, s, j - 1)[m]) {
            return j;
        }
    }
    return s;
}

void rotor_tables_replays(const struct rotor_tables *tables, const struct rotor_chain *chain,
                          uint32_t s, uint32_t t, uint32_t m, struct rotor_plan *plan)
{
    uint32_t from[ROTOR_MOST_LAYERS], until[ROTOR_MOST_LAYERS], left[ROTOR_MOST_LAYERS], n = 0;

    plan->at[plan->n++] =
        (struct pst_replay){chain->layers[t].last, chain->layers[s].first, chain->layers[t].last};
    while (s < t) { /* its own sweep; what it leaves for another one waits */
        uint32_t j = choice(tables, s, t, m);

        if (j == s) {
            m -= tables->saved[s++];
        } else {
            from[n] = s;
            until[n] = j - 1;
            left[n++] = m;
            m -= tables->x[j - 1];
            s = j;
        }
    }
    while (n-- > 0) {
        rotor_tables_replays(tables, chain, from[n], until[n], left[n], plan);
    }
}
