/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioning problems for tests: generated graphs, the reference cost model and exhaustive search
 * written without the code under test, a part_problem made by hand, and the same problem as a file.
 * Times are microseconds, per sample; everything fails the test when memory runs out.
 */
#ifndef TEST_PARTITION_RIG_H
#define TEST_PARTITION_RIG_H

#include "problem.h"

/* --- random numbers: splitmix64 ----------------------------------------------------------------*/

static inline uint64_t rig_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Whole numbers from low to high. */
static inline uint64_t rig_draw(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + rig_next(state) % (high - low + 1);
}

/* --- graphs ------------------------------------------------------------------------------------*/

struct rig_graph {
    uint32_t n, n_edges, room; /* ids are topological */
    uint32_t *from, *to;       /* by (from, to) once rig_costs or rig_sort has run */
    double *tau, *alpha;       /* [n] us per sample, us per micro-batch: F + B + W */
    double *weight, *saved;    /* [n] bytes, bytes per sample */
    double *workspace;         /* [n] bytes */
    double *bytes;             /* [n_edges] per sample */
    double forward_share;      /* F of F + B + W; 0.25: whole numbers stay exact */
    bool series_parallel;      /* known by construction */
};

void rig_graph_init(struct rig_graph *graph, uint32_t n);
void rig_graph_finish(struct rig_graph *graph);
void rig_edge(struct rig_graph *graph, uint32_t from, uint32_t to, double bytes);
void rig_sort(struct rig_graph *graph); /* parallel edges become one */

/* Structure alone; costs are 0 until set. *graph is made. */
void rig_chain(struct rig_graph *graph, uint32_t n);
/* head chain, k chains of lens[i] from its end (sources if head = 0), all into the first tail op.
 */
void rig_branches(struct rig_graph *graph, uint32_t k, const uint32_t *lens, uint32_t head,
                  uint32_t tail, bool skip);
/* Random series-parallel graph: percent of blocks that are parallel, of up to q children. */
void rig_nested(struct rig_graph *graph, uint32_t n, uint32_t q, uint32_t depth, uint32_t percent,
                uint64_t *state);
enum { RIG_N, RIG_W, RIG_BRIDGE, RIG_UNET, RIG_GRID };
void rig_special(struct rig_graph *graph, int kind,
                 uint32_t size); /* size: of unet, of a grid's side */
/* 1 to fan_in distinct predecessors among the previous width * span ops. */
void rig_layered(struct rig_graph *graph, uint32_t n, uint32_t width, uint32_t fan_in,
                 uint32_t span, uint64_t *state);
/* Nested plus n * permille / 1000 random forward edges. */
void rig_nearsp(struct rig_graph *graph, uint32_t n, uint32_t permille, uint64_t *state);
/* Every pair i < j with this chance in percent, and i -> i + 1 in 60 of 100: small, no structure.
 */
void rig_random(struct rig_graph *graph, uint32_t n, uint32_t percent, uint64_t *state);
/* Models of the GraphPipe paper with roofline costs and 20 us fixed cost an op. */
void rig_mmt(struct rig_graph *graph, uint32_t branches, uint32_t layers);
void rig_dlrm(struct rig_graph *graph, uint32_t dense, uint32_t sparse, uint32_t top);
void rig_candle(struct rig_graph *graph, uint32_t branches, uint32_t top);

enum { RIG_FLAT, RIG_UNIFORM, RIG_SKEWED, RIG_ZERO, RIG_LAYERS };
/* Draws per op tau, weight, saved, then per edge bytes; sorts the edges. */
void rig_costs(struct rig_graph *graph, int kind, uint64_t *state);

/* --- problems ----------------------------------------------------------------------------------*/

struct rig_case {
    const struct rig_graph *graph;
    uint32_t devices, batch, b; /* b: the one size, unless sizes are given */
    uint32_t n_sizes, n_degrees;
    const uint32_t *sizes, *degrees; /* NULL: {b}; {1} */
    double memory;                   /* bytes; INFINITY */
    double multiplier;
    double p2p, allreduce; /* bytes per us; 0: free */
    uint32_t comm;         /* PST_COMM_* */
};

/* One device, batch 1, no limits; everything can be changed. */
struct rig_case rig_case_of(const struct rig_graph *graph);
/* Two branches, 0 -> 1 and 2 -> 3, into 4; 6 us, 2 bytes saved and so many us a micro-batch for
   each: on five devices of 24 bytes, 32 samples. *graph is made. */
struct rig_case rig_two_branches(struct rig_graph *graph, double alpha);
void rig_case_choose(struct rig_case *c, uint32_t devices, uint32_t batch, const uint32_t *sizes,
                     uint32_t n_sizes, const uint32_t *degrees, uint32_t n_degrees);
/* Draws costs for the graph, links, degrees up to 4 and memory, tight in every other 72 rounds: of
   216 rounds each kind meets each other. */
struct rig_case rig_draw_case(struct rig_graph *graph, uint32_t most_devices, int round,
                              uint64_t *state);
/* Without a host. Finish it. */
void rig_problem(const struct rig_case *c, struct part_problem *ret_problem);
/* A penstock-problem file; options: a JSON object or NULL. free() it. */
char *rig_problem_json(const struct rig_case *c, const char *options);

/* --- the reference cost model, and every answer there is ---------------------------------------*/

struct rig_worth {
    bool legal, fits;
    double bottleneck, peak; /* us per sample; bytes */
    uint32_t depth, devices;
};

/* stage_of[v] < n_stages, degrees d[s]; memory by true depths, or by run index from the end where
   by_index is set (stages numbered along an order). */
struct rig_worth rig_judge(const struct rig_case *c, const uint32_t *stage_of, uint32_t n_stages,
                           const uint32_t *d, bool by_index);

/* The least bottleneck; INFINITY: none fits. n <= 9 or so. */
double rig_best_partition(const struct rig_case *c);
/* Of all cuts of one order, memory by run index. n <= 14 or so. */
double rig_best_cut(const struct rig_case *c, const uint32_t *order);

#endif
