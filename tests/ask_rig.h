/* SPDX-License-Identifier: Apache-2.0
 *
 * A generated problem as a file, and a partitioner asked about it. Include once, after cmocka.
 */
#ifndef PENSTOCK_TESTS_ASK_RIG_H
#define PENSTOCK_TESTS_ASK_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "partition_check.h"
#include "ask/problem_partition.h"

/* The problem of *c with options (a JSON object or NULL). pst_problem_destroy it. */
static inline struct pst_problem *ask_problem(const struct rig_case *c, const char *options)
{
    char path[] = "/tmp/penstock-partition-XXXXXX", *text = rig_problem_json(c, options);
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};
    int fd = mkstemp(path);
    pst_status st;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    free(text);
    st = pst_problem_read(path, &problem, &err);
    unlink(path);
    assert_ok(st, &err);
    return problem;
}

/* cancelled may be NULL. The result is to be finished where the status is PST_OK. */
static inline pst_status ask_rig(const struct rig_case *c, const char *id, const char *options,
                                 bool (*cancelled)(void), struct pst_partition_result *result,
                                 struct pst_error *err)
{
    struct pst_problem *problem = ask_problem(c, options);
    const struct pst_problem_job job = {.id = id, .problem = problem};
    pst_status st;

    memset(err, 0, sizeof *err);
    st = pst_problem_partition(&job, NULL, cancelled, result, err);
    pst_problem_destroy(problem);
    return st;
}

/* Returns the value of a remark; `otherwise` if the partitioner did not make it, or key is NULL. */
static inline double ask_number(const struct pst_partition_result *result, const char *key,
                                double otherwise)
{
    for (uint32_t i = 0; key != NULL && i < result->n_remarks; i++) {
        if (strcmp(result->remarks[i].key, key) == 0) {
            return result->remarks[i].number;
        }
    }
    return otherwise;
}

/* --- random problems ---------------------------------------------------------------------------*/

/* Two nodes or more, `most` or a few more, of any structure, some with fixed times. */
static inline void ask_draw_graph(struct rig_graph *g, uint32_t most, uint64_t *rng)
{
    uint32_t n = (uint32_t)rig_draw(rng, 2, most), lens[3];

    switch (rig_draw(rng, 0, 4)) {
    case 0:
        rig_chain(g, n);
        break;
    case 1:
        for (uint32_t i = 0; i < 3; i++) {
            lens[i] = (uint32_t)rig_draw(rng, 1, 4);
        }
        rig_branches(g, (uint32_t)rig_draw(rng, 2, 3), lens, (uint32_t)rig_draw(rng, 0, 1), 1,
                     rig_draw(rng, 0, 1) == 1);
        break;
    case 2:
        rig_nested(g, n, 3, 3, 50, rng);
        break;
    case 3:
        rig_layered(g, n, 3, 2, 2, rng);
        break;
    default:
        rig_random(g, n, 25, rng);
    }
    rig_costs(g, (int)rig_draw(rng, RIG_FLAT, RIG_ZERO), rng);
    for (uint32_t v = 0; v < g->n; v++) {
        g->alpha[v] = rig_draw(rng, 0, 2) == 0 ? (double)rig_draw(rng, 0, 20) : 0;
    }
}

static inline double ask_total(const double *list, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += list[i];
    }
    return sum;
}

/* Devices, sizes, degrees, links and memory for it, tight or not there at all. */
static inline void ask_draw_case(struct rig_case *c, const struct rig_graph *g, uint64_t *rng)
{
    static const uint32_t sizes[] = {1, 2, 4, 8}, twos[] = {1, 2, 4}, any[] = {1, 2, 3, 5},
                          wide[] = {2, 3};
    double tau = ask_total(g->tau, g->n) / g->n + 1;

    *c = rig_case_of(g);
    c->devices = (uint32_t)rig_draw(rng, 2, 6);
    c->batch = (uint32_t)rig_draw(rng, 1, 6) * 8;
    c->sizes = sizes + rig_draw(rng, 0, 2);
    c->n_sizes = (uint32_t)rig_draw(rng, 1, 2);
    switch (rig_draw(rng, 0, 3)) {
    case 0:
        break;
    case 1:
        c->degrees = any;
        c->n_degrees = (uint32_t)rig_draw(rng, 2, 4);
        break;
    case 2:
        c->degrees = wide;
        c->n_degrees = 2;
        break;
    default:
        c->degrees = twos;
        c->n_degrees = (uint32_t)rig_draw(rng, 2, 3);
    }
    c->comm = (uint32_t)rig_draw(rng, PST_COMM_NONE, PST_COMM_MAX);
    if (rig_draw(rng, 0, 1) == 1) { /* a message takes about as long as an operator */
        c->p2p = (ask_total(g->bytes, g->n_edges) / (g->n_edges + 1) + 1) / tau *
                 (double)rig_draw(rng, 1, 4);
        c->allreduce =
            (ask_total(g->weight, g->n) / g->n + 1) / tau / c->batch * (double)rig_draw(rng, 1, 4);
    }
    if (rig_draw(rng, 0, 1) == 1) {
        double all =
            c->multiplier * ask_total(g->weight, g->n) + ask_total(g->saved, g->n) * c->batch;

        c->memory = all * (double)rig_draw(rng, 20, 120) / 100;
    }
}

#endif
