/* SPDX-License-Identifier: Apache-2.0
 *
 * The least peak of any plan, without slots: for a range of layers the least bytes that do; for the
 * forward pass all pairs of what it leaves and what it then needs of which none is better in both.
 */
#include "chain.h"

#include "mem_plugin.h"

#define MOST_PAIRS                                                                                 \
    128 /* of one layer; of more those that matter least to this peak are left out                 \
         */

struct pair {
    uint64_t left, need; /* bytes from here on: left by the forward pass; with the active one */
    uint32_t j, next;    /* choice: s for all, else j; row of the pair that follows there */
};

struct least {
    const struct rotor_chain *chain;
    uint64_t need[ROTOR_MOST_LAYERS][ROTOR_MOST_LAYERS]; /* [s][t] least bytes of C(s, t) */
    uint8_t choice[ROTOR_MOST_LAYERS][ROTOR_MOST_LAYERS];
    uint64_t passes[ROTOR_MOST_LAYERS][ROTOR_MOST_LAYERS + 1];
    struct pair pairs[ROTOR_MOST_LAYERS + 1][MOST_PAIRS];
    uint32_t n_pairs[ROTOR_MOST_LAYERS + 1];
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void find_passes(struct least *w)
{
    const struct rotor_layer *layers = w->chain->layers;

    for (uint32_t s = 0; s < w->chain->n; s++) {
        w->passes[s][s + 1] = layers[s].pass_peak;
        for (uint32_t q = s + 1; q < w->chain->n; q++) {
            w->passes[s][q + 1] = larger(w->passes[s][q], layers[q - 1].x + layers[q].pass_peak);
        }
    }
}

static void find_needs(struct least *w)
{
    const struct rotor_layer *layers = w->chain->layers;

    for (uint32_t t = 0; t < w->chain->n; t++) {
        for (uint32_t s = t + 1; s-- > 0;) {
            uint64_t rest = s < t ? layers[s].saved + w->need[s + 1][t] : 0;
            uint64_t best = larger(layers[t].gradient + layers[s].save_peak, layers[s].back_peak);

            best = larger(best, rest);
            w->choice[s][t] = (uint8_t)s;
            for (uint32_t j = s + 1; j <= t; j++) {
                uint64_t x = layers[j - 1].x;
                uint64_t need = larger(layers[t].gradient + w->passes[s][j], x + w->need[j][t]);

                need = larger(need, w->need[s][j - 1]);
                if (need < best) {
                    best = need;
                    w->choice[s][t] = (uint8_t)j;
                }
            }
            w->need[s][t] = best;
        }
    }
}

/* --- the forward pass --------------------------------------------------------------------------*/

static uint64_t worth(const struct least *w, const struct pair *pair)
{
    return (w->chain->in_flight - 1) * pair->left + pair->need;
}

/* Keeps the pairs of which none is better in both; of too many the worst goes. */
static void offer(struct least *w, uint32_t s, struct pair pair)
{
    struct pair *pairs = w->pairs[s];
    uint32_t n = 0, worst = 0;

    for (uint32_t i = 0; i < w->n_pairs[s]; i++) {
        if (pairs[i].left <= pair.left && pairs[i].need <= pair.need) {
            return;
        }
    }
    for (uint32_t i = 0; i < w->n_pairs[s]; i++) {
        if (pairs[i].left < pair.left || pairs[i].need < pair.need) {
            pairs[n++] = pairs[i];
        }
    }
    if (n == MOST_PAIRS) {
        for (uint32_t i = 1; i < n; i++) {
            worst = worth(w, &pairs[i]) > worth(w, &pairs[worst]) ? i : worst;
        }
        pairs[worst] = pairs[--n];
    }
    pairs[n++] = pair;
    w->n_pairs[s] = n;
}

static void find_pairs(struct least *w, const struct pst_host *host)
{
    const struct rotor_layer *layers = w->chain->layers;
    uint32_t n = w->chain->n;

    w->pairs[n][0] = (struct pair){0};
    w->n_pairs[n] = 1;
    for (uint32_t s = n; s-- > 0;) {
        call_go_on(host);
        w->n_pairs[s] = 0;
        offer(w, s, (struct pair){0, larger(w->passes[s][n], w->need[s][n - 1]), n, 0});
        for (uint32_t i = 0; i < w->n_pairs[s + 1]; i++) {
            const struct pair *rest = &w->pairs[s + 1][i];
            uint64_t own = larger(layers[s].save_peak, layers[s].back_peak);

            offer(w, s,
                  (struct pair){layers[s].saved + rest->left,
                                larger(own, layers[s].saved + rest->need), s, i});
        }
        for (uint32_t j = s + 1; j < n; j++) {
            uint64_t x = layers[j - 1].x, own = larger(w->passes[s][j], w->need[s][j - 1]);

            for (uint32_t i = 0; i < w->n_pairs[j]; i++) {
                const struct pair *rest = &w->pairs[j][i];

                offer(w, s, (struct pair){x + rest->left, larger(own, x + rest->need), j, i});
            }
        }
    }
}

/* --- the plan ----------------------------------------------------------------------------------*/

static void replays(const struct least *w, uint32_t s, uint32_t t, struct rotor_plan *plan)
{
    uint32_t from[ROTOR_MOST_LAYERS], until[ROTOR_MOST_LAYERS], n = 0;

    plan->at[plan->n++] = (struct pst_replay){w->chain->layers[t].last, w->chain->layers[s].first,
                                              w->chain->layers[t].last};
    while (s < t) {
        uint32_t j = w->choice[s][t];

        if (j > s) {
            from[n] = s;
            until[n++] = j - 1;
        }
        s = j > s ? j : s + 1;
    }
    while (n-- > 0) {
        replays(w, from[n], until[n], plan);
    }
}

static void trace(const struct least *w, uint32_t row, struct rotor_plan *plan)
{
    uint32_t from[ROTOR_MOST_LAYERS], until[ROTOR_MOST_LAYERS], n = 0, s = 0;

    plan->n = 0;
    while (s < w->chain->n) {
        const struct pair *pair = &w->pairs[s][row];

        if (pair->j > s) {
            from[n] = s;
            until[n++] = pair->j - 1;
        }
        row = pair->next;
        s = pair->j > s ? pair->j : s + 1;
    }
    while (n-- > 0) {
        replays(w, from[n], until[n], plan);
    }
}

void rotor_chain_least(const struct rotor_chain *chain, const struct pst_host *host,
                       struct rotor_plan *ret_plan)
{
    struct least *w = call_alloc(1, sizeof *w);
    uint32_t best = 0;

    w->chain = chain;
    find_passes(w);
    find_needs(w);
    find_pairs(w, host);
    for (uint32_t i = 1; i < w->n_pairs[0]; i++) {
        best = worth(w, &w->pairs[0][i]) < worth(w, &w->pairs[0][best]) ? i : best;
    }
    trace(w, best, ret_plan);
    call_free(w);
}
