/* SPDX-License-Identifier: Apache-2.0 */
#include "host/lend.h"

#include <string.h>

struct pst_lending {
    struct pst_region *region; /* NULL: it is only measured */
    size_t room;
    uint32_t wider; /* bytes that are added to every row */
};

/* NULL while it is only measured. */
static void *put(struct pst_lending *lending, const void *from, size_t bytes)
{
    void *to;

    if (lending->region == NULL) {
        lending->room += pst_region_share(bytes);
        return NULL;
    }
    to = pst_region_alloc(lending->region, bytes);
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return to;
}

static const char *put_text(struct pst_lending *lending, const char *text)
{
    return text == NULL ? NULL : put(lending, text, strlen(text) + 1);
}

static void *put_array(struct pst_lending *lending, const void *from, uint32_t n, size_t size)
{
    return put(lending, from, (size_t)n * size);
}

/* Rows of *size bytes, which then are as long as the copies. */
static void *put_rows(struct pst_lending *lending, const void *from, uint64_t n, uint32_t *size)
{
    const uint32_t old = *size;
    char *to;

    *size += lending->wider;
    if (lending->region == NULL) {
        lending->room += pst_region_share((size_t)n * *size);
        return NULL;
    }
    to = pst_region_alloc(lending->region, (size_t)n * *size);
    for (uint64_t i = 0; i < n; i++) {
        memcpy(to + i * *size, (const char *)from + i * old, old);
    }
    return to;
}

void pst_lend_place(struct pst_lending *lending, const void *question)
{
    struct pst_place *to = put(lending, question, sizeof *to), place;

    place = *(const struct pst_place *)question;
    place.successors =
        put_rows(lending, place.successors, place.n_successors, &place.successor_size);
    if (to != NULL) {
        *to = place;
    }
}

void pst_lend_schedule(struct pst_lending *lending, const void *question)
{
    struct pst_schedule_in *to = put(lending, question, sizeof *to), in;

    in = *(const struct pst_schedule_in *)question;
    in.stages = put_rows(lending, in.stages, in.n_stages, &in.stage_size);
    in.links = put_rows(lending, in.links, in.n_links, &in.link_size);
    in.out_links = put_array(lending, in.out_links, in.n_links, sizeof *in.out_links);
    in.activation_bytes =
        put_array(lending, in.activation_bytes, in.n_devices, sizeof *in.activation_bytes);
    if (to != NULL) {
        *to = in;
    }
}

static const struct pst_graph_view *put_graph(struct pst_lending *lending,
                                              const struct pst_graph_view *from)
{
    struct pst_graph_view *to = put(lending, from, sizeof *to), graph = *from;
    char *nodes = put_rows(lending, graph.nodes, graph.n_nodes, &graph.node_size);

    graph.nodes = nodes;
    graph.edges = put_rows(lending, graph.edges, graph.n_edges, &graph.edge_size);
    graph.in_edges = put_array(lending, graph.in_edges, graph.n_edges, sizeof *graph.in_edges);
    graph.out_edges = put_array(lending, graph.out_edges, graph.n_edges, sizeof *graph.out_edges);
    for (uint32_t i = 0; i < from->n_nodes; i++) {
        const struct pst_node *node = pst_graph_node(from, i);
        const char *name = put_text(lending, node->name), *op = put_text(lending, node->op);

        if (nodes != NULL) {
            struct pst_node *own = (void *)(nodes + (size_t)i * graph.node_size);

            own->name = name;
            own->op = op;
        }
    }
    if (to != NULL) {
        *to = graph;
    }
    return to;
}

static const struct pst_cluster_view *put_cluster(struct pst_lending *lending,
                                                  const struct pst_cluster_view *from)
{
    struct pst_cluster_view *to = put(lending, from, sizeof *to), cluster = *from;

    cluster.devices = put_rows(lending, cluster.devices, cluster.n_devices, &cluster.device_size);
    if (to != NULL) {
        *to = cluster;
    }
    return to;
}

void pst_lend_partition(struct pst_lending *lending, const void *question)
{
    struct pst_partition_in *to = put(lending, question, sizeof *to), in;

    in = *(const struct pst_partition_in *)question;
    in.graph = put_graph(lending, in.graph);
    in.cluster = put_cluster(lending, in.cluster);
    in.micro_batches =
        put_array(lending, in.micro_batches, in.n_micro_batches, sizeof *in.micro_batches);
    in.degrees = put_array(lending, in.degrees, in.n_degrees, sizeof *in.degrees);
    if (to != NULL) {
        *to = in;
    }
}

/* Rows of view->producers, which the view does not count. */
static uint32_t count_producers(const struct pst_stage_view *view)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, i);
        uint32_t end = node->first_producer + node->n_producers;

        n = node->n_producers > 0 && end > n ? end : n;
    }
    return n;
}

static const struct pst_stage_view *put_stage_view(struct pst_lending *lending,
                                                   const struct pst_stage_view *from)
{
    struct pst_stage_view *to = put(lending, from, sizeof *to), view = *from;
    char *nodes = put_rows(lending, view.nodes, view.n_nodes, &view.node_size);

    view.nodes = nodes;
    view.producers =
        put_array(lending, view.producers, count_producers(from), sizeof *view.producers);
    for (uint32_t i = 0; i < from->n_nodes; i++) {
        const char *op = put_text(lending, pst_stage_node_op(from, i));

        if (op != NULL) {
            ((struct pst_stage_node *)(void *)(nodes + (size_t)i * view.node_size))->op = op;
        }
    }
    if (to != NULL) {
        *to = view;
    }
    return to;
}

void pst_lend_stage_view(struct pst_lending *lending, const void *question)
{
    put_stage_view(lending, question);
}

void pst_lend_global(struct pst_lending *lending, const void *question)
{
    const struct pst_global_in *from = question;
    struct pst_global_in *to = put(lending, from, sizeof *to), in = *from;
    char *stages = put_rows(lending, in.stages, in.n_stages, &in.stage_size);

    in.stages = stages;
    in.devices = put_rows(lending, in.devices, in.n_devices, &in.device_size);
    in.passes = put_rows(lending, in.passes, in.n_passes, &in.pass_size);
    in.links = put_rows(lending, in.links, (uint64_t)in.n_devices * in.n_devices, &in.link_size);
    for (uint32_t s = 0; s < from->n_stages; s++) {
        struct pst_global_stage stage = *pst_global_stage_at(from, s);

        stage.keepers =
            put_array(lending, stage.keepers, stage.n_microbatches, sizeof *stage.keepers);
        stage.move_bytes =
            put_array(lending, stage.move_bytes, stage.view->n_nodes, sizeof *stage.move_bytes);
        stage.view = put_stage_view(lending, stage.view);
        if (stages != NULL) {
            memcpy(stages + (size_t)s * in.stage_size, &stage, sizeof stage);
        }
    }
    if (to != NULL) {
        *to = in;
    }
}

void pst_lend_figures(const struct pst_figures *figures, uint32_t n_nodes, uint32_t n_edges,
                      struct pst_region *region)
{
    const size_t saved = n_nodes * sizeof(double), edges = n_edges * sizeof(double);
    struct pst_figures *copy;

    pst_region_init(region, pst_region_share(sizeof *copy) + pst_region_share(saved) +
                                pst_region_share(edges));
    copy = pst_region_alloc(region, sizeof *copy);
    *copy = *figures;
    copy->saved_bytes = memcpy(pst_region_alloc(region, saved), figures->saved_bytes, saved);
    copy->edge_bytes = memcpy(pst_region_alloc(region, edges), figures->edge_bytes, edges);
    pst_region_seal(region);
}

void pst_lend(pst_lend_copy *copy, const void *question, uint32_t wider, struct pst_region *region,
              const void **ret_copy)
{
    struct pst_lending lending = {.wider = wider};

    copy(&lending, question);
    pst_region_init(region, lending.room);
    lending.region = region;
    copy(&lending, question);
    pst_region_seal(region);
    *ret_copy = region->bytes;
}
