/* SPDX-License-Identifier: Apache-2.0
 *
 * How a test runs a model on several ranks, and the orders of passes for that.
 */
#ifndef PST_TEST_EXEC_ORDERS_H
#define PST_TEST_EXEC_ORDERS_H

#include "plan/program.h"

enum order { ORDER_GPIPE, ORDER_1F1B, ORDER_SPLIT, ORDER_REVERSE, ORDER_2BW, ORDER_STASHED };
enum { MOST_STAGES = 6, MOST_RANKS = 12, SIZE = 2 };

/*
 * How to run it; ranks[s] is the rank of stage s. With replicas stage s has as many ranks, the next
 * ones, and micro-batches of SIZE samples for each; 1F1B and 2BW want one number for all stages.
 */
struct layout {
    uint32_t n_stages, ranks[MOST_STAGES];
    enum order order;
    bool recompute;
    uint32_t replicas[MOST_STAGES]; /* all 0: one each */
};

static inline uint32_t width_of(const struct layout *layout, uint32_t s)
{
    return layout->replicas[s] > 0 ? layout->replicas[s] : 1;
}

static inline uint32_t first_rank(const struct layout *layout, uint32_t s)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < s && layout->replicas[0] > 0; i++) {
        rank += layout->replicas[i];
    }
    return layout->replicas[0] > 0 ? rank : layout->ranks[s];
}

/* The only stage of a rank, where there are replicas. */
static inline uint32_t stage_on(const struct layout *layout, uint32_t rank)
{
    uint32_t s = 0;

    while (s + 1 < layout->n_stages && first_rank(layout, s + 1) <= rank) {
        s++;
    }
    return s;
}

/* One stage: all forward, then all backward, from the last micro-batch where that is asked for. */
static inline uint32_t plain_order(const struct layout *layout, uint32_t s, uint32_t m,
                                   struct pst_pass *order)
{
    for (uint32_t j = 0; j < m; j++) {
        order[j] = (struct pst_pass){PST_PASS_F, s, j};
        order[m + j] =
            (struct pst_pass){PST_PASS_BW, s, layout->order == ORDER_REVERSE ? m - 1 - j : j};
    }
    return 2 * m;
}

/* The order of one rank: every stage of it forward, then backward from the last. */
static inline uint32_t chunked_order(const struct layout *layout, uint32_t rank, uint32_t m,
                                     struct pst_pass *order)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < layout->n_stages; s++) {
        for (uint32_t j = 0; layout->ranks[s] == rank && j < m; j++) {
            order[n++] = (struct pst_pass){PST_PASS_F, s, j};
        }
    }
    for (uint32_t s = layout->n_stages; s-- > 0;) {
        for (uint32_t j = 0; layout->ranks[s] == rank && j < m; j++) {
            order[n++] =
                (struct pst_pass){PST_PASS_BW, s, layout->order == ORDER_REVERSE ? m - 1 - j : j};
        }
    }
    return n;
}

/* One stage per rank: warm-up, one forward one backward; W apart and one micro-batch late. */
static inline uint32_t steady_order(const struct layout *layout, uint32_t s, uint32_t m,
                                    struct pst_pass *order)
{
    uint32_t n = 0, f = 0, warm = layout->n_stages - 1 - s;

    for (; f < warm && f < m; f++) {
        order[n++] = (struct pst_pass){PST_PASS_F, s, f};
    }
    for (uint32_t j = 0; j < m; j++) {
        if (f < m) {
            order[n++] = (struct pst_pass){PST_PASS_F, s, f++};
        }
        if (layout->order == ORDER_1F1B) {
            order[n++] = (struct pst_pass){PST_PASS_BW, s, j};
            continue;
        }
        order[n++] = (struct pst_pass){PST_PASS_B, s, j};
        if (j > 0) {
            order[n++] = (struct pst_pass){PST_PASS_W, s, j - 1};
        }
    }
    if (layout->order == ORDER_SPLIT) {
        order[n++] = (struct pst_pass){PST_PASS_W, s, m - 1};
    }
    return n;
}

/* PipeDream, PipeDream-2BW: w forwards ahead, then a forward and a backward in turn; of the drain
   only what is left of its batch. */
static inline uint32_t delayed_order(uint32_t n_stages, uint32_t s, uint32_t m, enum pst_part part,
                                     struct pst_pass *order)
{
    uint32_t n = 0, w = n_stages - 1 - s;

    w = w < m ? w : m;
    for (uint32_t j = 0; j < w && part == PST_FILL; j++) {
        order[n++] = (struct pst_pass){PST_PASS_F, s, j};
    }
    for (uint32_t j = 0; j < m && part != PST_FILL; j++) {
        if (part == PST_BODY || w + j < m) {
            order[n++] = (struct pst_pass){PST_PASS_F, s, w + j};
        }
        order[n++] = (struct pst_pass){PST_PASS_BW, s, j};
    }
    return n;
}

#endif
