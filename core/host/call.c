/* SPDX-License-Identifier: Apache-2.0 */
#include "host/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* --- memory that is lent -----------------------------------------------------------------------*/

/* Bytes of a region that an allocation takes. */
static size_t share_of(size_t bytes)
{
    return (bytes + 31) / 16 * 16;
}

void pst_region_finish(struct pst_region *region)
{
    free(region->bytes);
    memset(region, 0, sizeof *region);
}

bool pst_region_intact(const struct pst_region *region)
{
    return memcmp(region->copy, region->bytes, region->used) == 0;
}

/* --- copies ------------------------------------------------------------------------------------*/

struct pst_lending {
    struct pst_region *region; /* NULL: it is only measured */
    size_t room;
    uint32_t wider; /* bytes that are added to every row */
};

/* Filled with a pattern: what a plugin reads beyond its elements is no friendly zero. NULL while it
   is only measured. */
static void *put_rows(struct pst_lending *lending, const void *from, uint64_t n, size_t size,
                      uint32_t wider)
{
    size_t bytes = (size_t)n * (size + wider), share = share_of(bytes);
    struct pst_region *region = lending->region;
    char *to;

    if (region == NULL) {
        lending->room += share;
        return NULL;
    }
    to = region->bytes + region->used;
    region->used += share;
    memset(to, 0xA5, share);
    if (wider == 0 && bytes > 0) {
        memcpy(to, from, bytes);
    }
    for (uint64_t i = 0; wider > 0 && i < n; i++) {
        memcpy(to + i * (size + wider), (const char *)from + i * size, size);
    }
    return to;
}

static void *put_bytes(struct pst_lending *lending, const void *from, size_t bytes)
{
    return put_rows(lending, from, 1, bytes, 0);
}

static const char *put_text(struct pst_lending *lending, const char *text)
{
    return text == NULL ? NULL : put_bytes(lending, text, strlen(text) + 1);
}

/* A pointer of a struct, the member that says to how many elements, and either their size or the
   member that states it. */
struct lent {
    size_t at, count, size, stated;
};
#define ARRAY(type, field, n)                                                                      \
    {                                                                                              \
        offsetof(struct type, field), offsetof(struct type, n),                                    \
            sizeof *((struct type *)NULL)->field, 0                                                \
    }
#define ROWS(type, field, n, size)                                                                 \
    {                                                                                              \
        offsetof(struct type, field), offsetof(struct type, n), 0, offsetof(struct type, size)     \
    }

/* A struct with what its pointers lead to; NULL while it is only measured. */
static void *put_struct(struct pst_lending *lending, const void *from_, size_t bytes,
                        const struct lent *fields, size_t n)
{
    const char *from = from_;
    char *to = put_bytes(lending, from, bytes);

    for (size_t i = 0; i < n; i++) {
        const struct lent *f = &fields[i];
        uint32_t wider = f->stated != 0 ? lending->wider : 0, count, size = (uint32_t)f->size;
        const void *items;
        void *copy;

        memcpy(&items, from + f->at, sizeof items);
        memcpy(&count, from + f->count, sizeof count);
        if (f->stated != 0) {
            memcpy(&size, from + f->stated, sizeof size);
        }
        copy = put_rows(lending, items, count, size, wider);
        if (to != NULL) {
            size += wider;
            memcpy(to + f->at, &copy, sizeof copy);
            memcpy(f->stated != 0 ? to + f->stated : (char *)&size, &size, sizeof size);
        }
    }
    return to;
}

#define PUT(lending, from, fields)                                                                 \
    put_struct(lending, from, sizeof *(from), fields, sizeof(fields) / sizeof *(fields))

void pst_lend_place(struct pst_lending *lending, const void *question)
{
    static const struct lent fields[] = {ROWS(pst_place, successors, n_successors, successor_size)};

    PUT(lending, (const struct pst_place *)question, fields);
}

void pst_lend_schedule(struct pst_lending *lending, const void *question)
{
    static const struct lent fields[] = {
        ROWS(pst_schedule_in, stages, n_stages, stage_size),
        ROWS(pst_schedule_in, links, n_links, link_size),
        ARRAY(pst_schedule_in, out_links, n_links),
        ARRAY(pst_schedule_in, activation_bytes, n_devices),
    };

    PUT(lending, (const struct pst_schedule_in *)question, fields);
}

static const struct pst_graph_view *put_graph(struct pst_lending *lending,
                                              const struct pst_graph_view *from)
{
    static const struct lent fields[] = {
        ROWS(pst_graph_view, nodes, n_nodes, node_size),
        ROWS(pst_graph_view, edges, n_edges, edge_size),
        ARRAY(pst_graph_view, in_edges, n_edges),
        ARRAY(pst_graph_view, out_edges, n_edges),
    };
    struct pst_graph_view *to = PUT(lending, from, fields);

    for (uint32_t i = 0; i < from->n_nodes; i++) {
        const struct pst_node *node = pst_graph_node(from, i);
        const char *name = put_text(lending, node->name), *op = put_text(lending, node->op);

        if (to != NULL) {
            struct pst_node *own = (void *)((uintptr_t)to->nodes + (size_t)i * to->node_size);

            own->name = name;
            own->op = op;
        }
    }
    return to;
}

void pst_lend_partition(struct pst_lending *lending, const void *question)
{
    static const struct lent fields[] = {
        ARRAY(pst_partition_in, micro_batches, n_micro_batches),
        ARRAY(pst_partition_in, degrees, n_degrees),
        ARRAY(pst_partition_in, tensors, n_tensors),
        ARRAY(pst_partition_in, tied, n_tied),
    };
    static const struct lent devices[] = {ROWS(pst_cluster_view, devices, n_devices, device_size)};
    const struct pst_partition_in *from = question;
    struct pst_partition_in *to = PUT(lending, from, fields);
    const struct pst_graph_view *graph = put_graph(lending, from->graph);
    const struct pst_cluster_view *cluster = PUT(lending, from->cluster, devices);

    if (to != NULL) {
        to->graph = graph;
        to->cluster = cluster;
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
    static const struct lent fields[] = {ROWS(pst_stage_view, nodes, n_nodes, node_size)};
    struct pst_stage_view *to = PUT(lending, from, fields);
    const uint32_t *producers =
        put_bytes(lending, from->producers, count_producers(from) * sizeof *producers);

    for (uint32_t i = 0; i < from->n_nodes; i++) {
        const char *op = put_text(lending, pst_stage_node_op(from, i));

        if (op != NULL) {
            ((struct pst_stage_node *)((uintptr_t)to->nodes + (size_t)i * to->node_size))->op = op;
        }
    }
    if (to != NULL) {
        to->producers = producers;
    }
    return to;
}

void pst_lend_stage_view(struct pst_lending *lending, const void *question)
{
    put_stage_view(lending, question);
}

void pst_lend_global(struct pst_lending *lending, const void *question)
{
    static const struct lent fields[] = {
        ROWS(pst_global_in, stages, n_stages, stage_size),
        ROWS(pst_global_in, devices, n_devices, device_size),
        ROWS(pst_global_in, passes, n_passes, pass_size),
    };
    const struct pst_global_in *from = question;
    struct pst_global_in *to = PUT(lending, from, fields);
    const struct pst_global_link *links =
        put_rows(lending, from->links, (uint64_t)from->n_devices * from->n_devices, from->link_size,
                 lending->wider);

    for (uint32_t s = 0; s < from->n_stages; s++) {
        struct pst_global_stage stage = *pst_global_stage_at(from, s);

        stage.keepers =
            put_bytes(lending, stage.keepers, stage.n_microbatches * sizeof *stage.keepers);
        stage.move_bytes =
            put_bytes(lending, stage.move_bytes, stage.view->n_nodes * sizeof *stage.move_bytes);
        stage.view = put_stage_view(lending, stage.view);
        if (to != NULL) {
            memcpy((char *)(uintptr_t)to->stages + (size_t)s * to->stage_size, &stage,
                   sizeof stage);
        }
    }
    if (to != NULL) {
        to->links = links;
        to->link_size += lending->wider;
    }
}

struct lent_figures {
    const struct pst_figures *figures;
    size_t n_nodes, n_edges;
};

static void lend_figures(struct pst_lending *lending, const void *question)
{
    const struct lent_figures *lent = question;
    const struct pst_figures *from = lent->figures;
    struct pst_figures *to = put_bytes(lending, from, sizeof *from);
    const double *saved = put_bytes(lending, from->saved_bytes, lent->n_nodes * sizeof *saved);
    const double *edges = put_bytes(lending, from->edge_bytes, lent->n_edges * sizeof *edges);

    if (to != NULL) {
        to->saved_bytes = saved;
        to->edge_bytes = edges;
    }
}

void pst_lend(pst_lend_copy *copy, const void *question, uint32_t wider, struct pst_region *region,
              const void **ret_copy)
{
    struct pst_lending lending = {.wider = wider};

    copy(&lending, question); /* how much it takes */
    *region = (struct pst_region){.room = lending.room, .bytes = pst_alloc(2, lending.room)};
    region->copy = region->bytes + region->room;
    lending.region = region;
    copy(&lending, question);
    memcpy(region->copy, region->bytes, region->used); /* from here on nothing may change */
    *ret_copy = region->bytes;
}

void pst_lend_figures(const struct pst_figures *figures, uint32_t n_nodes, uint32_t n_edges,
                      struct pst_region *region)
{
    const struct lent_figures lent = {figures, n_nodes, n_edges};
    const void *copy;

    pst_lend(lend_figures, &lent, 0, region, &copy);
}

/* --- calls -------------------------------------------------------------------------------------*/

/* A call in progress: who is asked, and its copy of the question. */
struct call {
    struct pst_instance *instance;
    struct pst_region region;
    const void *question;
};

static void begin_call(struct call *call, struct pst_instance *instance, enum pst_plugin_call name,
                       pst_lend_copy *copy, const void *question)
{
    *call = (struct call){.instance = instance};
    pst_lend(copy, question, instance->wider, &call->region, &call->question);
    pst_instance_enter(instance, name);
}

static pst_status written(struct pst_instance *instance)
{
    return pst_fail(&instance->failure, PST_ERR_BUG, "plugin.contract", "it wrote into its input");
}

static pst_status end_call(struct call *call, pst_status status)
{
    pst_instance_leave(call->instance);
    status = pst_region_intact(&call->region) ? status : written(call->instance);
    pst_region_finish(&call->region);
    return status;
}

pst_status pst_call_in_flight(struct pst_instance *scheduler, const struct pst_place *place,
                              struct pst_held *ret_held)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    struct call call;

    begin_call(&call, scheduler, PST_CRUMB_IN_FLIGHT, pst_lend_place, place);
    return end_call(&call, f->in_flight(scheduler->self, call.question, ret_held));
}

pst_status pst_call_schedule(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                             struct pst_schedule_out *out)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    struct call call;

    begin_call(&call, scheduler, PST_CRUMB_SCHEDULE, pst_lend_schedule, in);
    return end_call(&call, f->schedule(scheduler->self, call.question, out));
}

pst_status pst_call_partition(struct pst_instance *partitioner, const struct pst_partition_in *in,
                              struct pst_partition_out *out)
{
    const struct pst_partitioner *f = partitioner->plugin->get_interface(PST_PARTITIONER);
    struct call call;
    const struct pst_region *figures = partitioner->context.figures;
    pst_status status;

    begin_call(&call, partitioner, PST_CRUMB_PARTITION, pst_lend_partition, in);
    status = end_call(&call, f->partition(partitioner->self, call.question, out));
    return figures == NULL || pst_region_intact(figures) ? status : written(partitioner);
}

pst_status pst_call_bound(struct pst_instance *memopt, const struct pst_stage_view *view,
                          uint64_t *ret_period_ns)
{
    const struct pst_memopt *f = memopt->plugin->get_interface(PST_MEMOPT);
    struct call call;

    begin_call(&call, memopt, PST_CRUMB_BOUND, pst_lend_stage_view, view);
    return end_call(&call, f->bound(memopt->self, call.question, ret_period_ns));
}

pst_status pst_call_price(struct pst_instance *memopt, const struct pst_stage_view *view,
                          struct pst_stage_price *ret_price)
{
    const struct pst_memopt *f = memopt->plugin->get_interface(PST_MEMOPT);
    struct call call;

    begin_call(&call, memopt, PST_CRUMB_PRICE, pst_lend_stage_view, view);
    return end_call(&call, f->price(memopt->self, call.question, ret_price));
}

pst_status pst_call_plan(struct pst_instance *memopt, const struct pst_stage_view *view,
                         struct pst_action_out *out)
{
    const struct pst_memopt *f = memopt->plugin->get_interface(PST_MEMOPT);
    struct call call;

    begin_call(&call, memopt, PST_CRUMB_PLAN, pst_lend_stage_view, view);
    return end_call(&call, f->plan(memopt->self, call.question, out));
}

pst_status pst_call_global(struct pst_instance *memopt, const struct pst_global_in *in,
                           struct pst_global_out *out)
{
    const struct pst_memopt_global *f = memopt->plugin->get_interface(PST_MEMOPT_GLOBAL);
    struct call call;

    begin_call(&call, memopt, PST_CRUMB_PLAN, pst_lend_global, in);
    return end_call(&call, f->plan(memopt->self, call.question, out));
}
