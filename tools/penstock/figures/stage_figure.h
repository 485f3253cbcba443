/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of the stages of a plan as a figure: a box per stage, in columns by the number of
 * stages on the longest path to the end, so that stages of a column hold as many micro-batches as
 * each other; long pipelines continue in a further line, like text. Deterministic, like
 * figure.h.
 */
#ifndef PST_FIGURES_STAGE_FIGURE_H
#define PST_FIGURES_STAGE_FIGURE_H

#include "figures/figure.h"
#include "figures/pen.h"
#include "session/session.h"

#define PST_STAGE_FIGURE_MOST 2000

struct pst_problem;
struct pst_partition_result;

/* One stage. What is not known is 0. */
struct pst_stage_box {
    const char *first, *last; /* what is in it, from here to there; NULL: not known */
    uint32_t n_nodes;
    uint32_t n_devices, n_successors;
    const uint32_t *devices;    /* ascending */
    const uint32_t *successors; /* stages with higher numbers */
    uint32_t microbatch_size;   /* samples, over all devices */
    uint32_t in_flight_samples;
    double time_ns;      /* of all passes of one micro-batch on one device */
    double memory_bytes; /* of one device */
    double lacks_bytes;  /* that its device has less than the graph's limit */
};

struct pst_stage_graph {
    const char *title, *subtitle; /* or NULL */
    uint32_t n_stages;
    const struct pst_stage_box *stages;
    double limit_bytes; /* of a device; INFINITY: none */
};

/* Errors: config.value: more than PST_STAGE_FIGURE_MOST stages, or so many side by side that no
   page holds them. */
pst_status pst_stage_figure_render(const struct pst_stage_graph *graph,
                                   enum pst_figure_format format, unsigned char **ret_bytes,
                                   size_t *ret_length, struct pst_error *err);

/* As elements of a page, which the pen has open. Returns false, and draws nothing, where there are
   too many stages. */
bool pst_stage_figure_draw(const struct pst_stage_graph *graph, struct pst_pen *pen,
                           double *ret_width, double *ret_height);

/* The stages of a session's plan, all in the arena. */
void pst_stage_graph_of_plan(const struct pst_session *session, struct pst_arena *arena,
                             struct pst_stage_graph *ret_graph);

/* The stages of a partitioner's answer, or of a session's plan, into a file, whole or not at all.
   Also output.write. */
pst_status pst_stage_figure_write_partition(const struct pst_problem *problem,
                                            const struct pst_partition_result *result,
                                            const char *path, enum pst_figure_format format,
                                            struct pst_error *err);
pst_status pst_stage_figure_write_plan(const struct pst_session *session, const char *path,
                                       enum pst_figure_format format, struct pst_error *err);

#endif
