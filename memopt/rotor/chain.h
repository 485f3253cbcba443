/* SPDX-License-Identifier: Apache-2.0
 *
 * Nested checkpointing of a chain of layers, with several micro-batches in flight.
 *
 * Layers 0 ... n - 1; what a forward leaves of layer l is its result (x) or all that its backward
 * wants (saved, the result among it). Layers s..t are taken back with the result of s - 1 in place,
 * the gradient of t's result waiting, and m further bytes:
 *
 *     C(s, t, m) = the least time of forwards, replays included, and backwards
 *       all   forward of s saving all, the rest with m - saved[s], backward of s
 *       ck j  forward of s ... j - 1 keeping the result of j - 1 alone, layers j..t with m - x[j -
 * 1], and then s..j - 1 with m
 *
 * The first sweep is the forward pass itself; what it leaves is parked in flight - 1 times more:
 *
 *     D(s, st) = the same for s..n - 1 of which the forward pass has left st bytes so far
 *
 * Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous
 * chains: how to train deep neural networks with limited memory", 2019, for one micro-batch.
 */
#ifndef MEMOPT_ROTOR_CHAIN_H
#define MEMOPT_ROTOR_CHAIN_H

#include "plugin_call.h"

#define ROTOR_MOST_LAYERS 64
#define ROTOR_NEVER       (UINT64_MAX / 4) /* as a time: not with these bytes */

/* Bytes of one micro-batch beside the result of the layer before, which is in place. */
struct rotor_layer {
    uint64_t forward_ns, backward_ns;
    uint64_t x;           /* its result as a checkpoint */
    uint64_t gradient;    /* of its result, while that waits */
    uint64_t saved;       /* what stays when all is saved */
    uint64_t save_peak;   /* most in a forward that saves all */
    uint64_t pass_peak;   /* most in a forward that leaves the result alone */
    uint64_t back_peak;   /* most in its backward, all that it saved included */
    uint32_t first, last; /* positions of its nodes in the view */
};

struct rotor_chain {
    uint32_t n;
    struct rotor_layer layers[ROTOR_MOST_LAYERS];
    uint64_t in_flight;   /* k, at least 1 */
    uint64_t input_bytes; /* of a micro-batch, each of which holds it */
    uint64_t fixed_bytes; /* whatever is done */
    uint64_t capacity;
};

/* Replays in their order. */
struct rotor_plan {
    uint32_t n;
    struct pst_replay at[ROTOR_MOST_LAYERS];
};

/*
 * The stage as a chain: layers end where a single result leads on, and neighbours are united until
 * there are at most `most` (up to ROTOR_MOST_LAYERS), those first that save least. Nodes that must
 * not be replayed or that are decided about count among the fixed bytes. last: [n_nodes] scratch.
 * False: sums do not fit into 61 bits, or there are no nodes.
 */
bool rotor_chain_load(struct rotor_chain *chain, const struct pst_stage_view *view, uint32_t most,
                      uint64_t *last);

/*
 * The plan of least time with sizes rounded up to one of `slots` parts of the memory that the
 * active micro-batch may use, or exact where fewer do. Returns the time of forwards, backwards and
 * replays; ROTOR_NEVER: none fits.
 */
uint64_t rotor_chain_solve(const struct rotor_chain *chain, uint32_t slots,
                           const struct pst_host *host, struct rotor_plan *ret_plan);

/* The plan of least peak, to the byte. */
void rotor_chain_least(const struct rotor_chain *chain, const struct pst_host *host,
                       struct rotor_plan *ret_plan);

/* --- private to the solver ---------------------------------------------------------------------*/

/* Sizes in slots, and C of all pairs. */
struct rotor_tables {
    uint32_t n, slots;
    uint64_t unit_of; /* bytes that `slots` slots are */
    uint32_t x[ROTOR_MOST_LAYERS], gradient[ROTOR_MOST_LAYERS], saved[ROTOR_MOST_LAYERS];
    uint32_t save_peak[ROTOR_MOST_LAYERS], pass_peak[ROTOR_MOST_LAYERS];
    uint32_t back_peak[ROTOR_MOST_LAYERS];
    /* [s][j] for the forwards of s ... j - 1 that keep the result of j - 1 alone */
    uint32_t passes[ROTOR_MOST_LAYERS][ROTOR_MOST_LAYERS + 1];
    uint64_t forward[ROTOR_MOST_LAYERS + 1]; /* of all layers before */
    uint64_t backward[ROTOR_MOST_LAYERS];
    uint64_t *cells; /* rows of slots + 1; see rotor_row */
};

/* For loops over slots, where nearly all the time goes: eight at a time where the processor can. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ROTOR_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ROTOR_WIDE
#endif

/* C(s, t, 0 ... slots). */
static inline uint64_t *rotor_row(const struct rotor_tables *tables, uint32_t s, uint32_t t)
{
    return tables->cells + ((size_t)t * (t + 1) / 2 + s) * ((size_t)tables->slots + 1);
}

/* Fills C; sizes in slots of unit_of / slots bytes. */
void rotor_tables_fill(struct rotor_tables *tables, const struct rotor_chain *chain,
                       const struct pst_host *host);

/* Appends the replays of s..t, the first of which is the one that makes it all, with m slots. */
void rotor_tables_replays(const struct rotor_tables *tables, const struct rotor_chain *chain,
                          uint32_t s, uint32_t t, uint32_t m, struct rotor_plan *plan);

#endif
