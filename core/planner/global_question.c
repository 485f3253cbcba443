/* SPDX-License-Identifier: Apache-2.0
 *
 * What memory optimizers of pst.memopt-global/1 are told: stages with what their nodes may leave
 * elsewhere, every pass with its time and the bytes that are held meanwhile, links between devices.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "planner/global.h"

/* --- bytes over the passes ---------------------------------------------------------------------*/

/* The most that lives from the end of a pass to the end of the next one. */
static void read_live(const struct pst_program *program, uint64_t *ret_live, uint32_t n)
{
    uint64_t *rise = pst_alloc((size_t)program->n_ticks + 1, sizeof *rise), live = 0;
    uint32_t pass = 0;

    for (uint32_t v = 0; v < program->n_values; v++) { /* differences wrap around and cancel out */
        const struct pst_value *value = &program->values[v];

        if (value->kind != PST_V_HOST) {
            rise[value->first] += value->bytes;
            rise[value->last + 1] -= value->bytes;
        }
    }
    memset(ret_live, 0, n * sizeof *ret_live);
    for (uint32_t i = 0; i < program->n_instrs && n > 0; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        uint64_t *most = &ret_live[pass < n ? pass : n - 1];

        for (uint32_t t = list->first_tick; t < list->first_tick + list->n_ticks; t++) {
            live += rise[t];
            *most = live > *most ? live : *most;
        }
        pass += program->instrs[i].op < PST_I_SEND;
    }
    free(rise);
}

/* Builds the programs of a plan with lists. ret_live (or NULL): [rank][position] most bytes held
   from the end of the pass before; ret_arena_bytes (or NULL): [rank]. */
static pst_status measure_programs(const struct pst_planner_in *in, const struct pst_plan *plan,
                                   const uint32_t *n_passes, uint64_t *const *ret_live,
                                   uint64_t *ret_arena_bytes, struct pst_error *err)
{
    struct pst_program **programs = pst_alloc(plan->n_devices, sizeof(void *));
    pst_status status = pst_programs_create(
        plan, in->graph, in->cost, ret_arena_bytes == NULL ? PST_PROGRAM_BUILT : PST_PROGRAM_WHOLE,
        NULL, programs, err);

    for (uint32_t r = 0; status == PST_OK && r < plan->n_devices; r++) {
        if (ret_arena_bytes != NULL) {
            ret_arena_bytes[r] = programs[r]->arena_bytes;
        }
        if (ret_live != NULL) {
            read_live(programs[r], ret_live[r], n_passes[r]);
        }
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        pst_program_destroy(programs[r]);
    }
    free(programs);
    return status;
}

pst_status pst_global_arenas(const struct pst_planner_in *in, struct pst_plan *plan,
                             const struct pst_orders *orders, uint64_t *ret_arena_bytes,
                             struct pst_error *err)
{
    const uint32_t *n_passes = orders->n_passes[PST_BODY];
    pst_status status = pst_plan_lower(plan, in->graph, in->cost,
                                       (const struct pst_pass *const *)orders->passes[PST_BODY],
                                       n_passes, true, err);

    return status == PST_OK ? measure_programs(in, plan, n_passes, NULL, ret_arena_bytes, err)
                            : status;
}

/* --- devices -----------------------------------------------------------------------------------*/

static void make_devices(struct pst_global_question *q, const struct pst_planner *planner,
                         const struct pst_plan *plan, const struct pst_orders *orders,
                         struct pst_arena *arena)
{
    uint32_t n, at = 0;

    q->n_ranks = plan->n_devices;
    q->device_of = pst_arena_array(arena, plan->n_devices, sizeof *q->device_of);
    q->first_rank = pst_arena_array(arena, plan->n_devices, sizeof *q->first_rank);
    q->devices = pst_arena_array(arena, plan->n_devices, sizeof *q->devices);
    q->in.n_devices = n = pst_plan_logical(plan, q->device_of);
    for (uint32_t r = plan->n_devices; r-- > 0;) {
        q->first_rank[q->device_of[r]] = r;
        q->devices[q->device_of[r]].n_ranks++;
    }
    q->degree_of = pst_arena_array(arena, plan->n_devices, sizeof *q->degree_of);
    for (uint32_t d = 0; d < n; d++) { /* those without stages */
        q->degree_of[d] = planner->in.graph->degree_of == NULL ? planner->in.graph->parts : 1;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        q->first_rank[q->device_of[stage->ranks[0]]] = stage->ranks[0];
        q->degree_of[q->device_of[stage->ranks[0]]] =
            pst_graph_parts(planner->in.graph, stage->nodes[0]);
    }
    for (uint32_t d = 0; d < n; d++) {
        q->devices[d].capacity_bytes = UINT64_MAX;
        q->devices[d].first_pass = at;
        q->devices[d].n_passes = orders->n_passes[PST_BODY][q->first_rank[d]];
        at += q->devices[d].n_passes;
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        uint64_t *told = &q->devices[q->device_of[r]].capacity_bytes;
        uint64_t of = pst_planner_capacity(planner, &r, 1);

        *told = of < *told ? of : *told;
    }
    q->in.n_passes = at;
}

static void make_links(struct pst_global_question *q, const struct pst_planner_in *in,
                       struct pst_arena *arena)
{
    uint32_t n = q->in.n_devices;

    q->links = pst_arena_array(arena, (size_t)n * n, sizeof *q->links);
    for (uint32_t i = 0; i < n * n; i++) {
        const uint32_t ends[] = {q->first_rank[i / n], q->first_rank[i % n]};
        bool far = pst_cost_node(in->cost, ends[0]) != pst_cost_node(in->cost, ends[1]);
        struct pst_cluster room;
        const struct pst_cluster *cluster = pst_cluster_on(in->cluster, ends, 2, &room);

        q->links[i] =
            far ? (struct pst_global_link){cluster->node_link_bandwidth, cluster->node_link_latency}
                : (struct pst_global_link){cluster->link_bandwidth, cluster->link_latency};
    }
}

/* Times and bytes of every pass. */
static pst_status make_passes(struct pst_global_question *q, const struct pst_planner_in *in,
                              struct pst_plan *plan, const struct pst_orders *orders,
                              struct pst_arena *arena, struct pst_error *err)
{
    const uint32_t *n_passes = orders->n_passes[PST_BODY];
    uint64_t **rows[3]; /* start, end, bytes */
    pst_status status = PST_OK;

    q->passes = pst_arena_array(arena, q->in.n_passes, sizeof *q->passes);
    for (uint32_t k = 0; k < 3; k++) {
        rows[k] = pst_arena_array(arena, plan->n_devices, sizeof(uint64_t *));
        for (uint32_t r = 0; r < plan->n_devices; r++) {
            rows[k][r] = pst_arena_array(arena, n_passes[r], sizeof(uint64_t));
        }
    }
    status = pst_plan_lower_timed(plan, in->graph, in->cost,
                                  (const struct pst_pass *const *)orders->passes[PST_BODY],
                                  n_passes, rows[0], rows[1], err);
    PST_TRY(status, measure_programs(in, plan, n_passes, rows[2], NULL, err));
    for (uint32_t r = 0; status == PST_OK && r < plan->n_devices; r++) {
        const struct pst_global_device *device = &q->devices[q->device_of[r]];

        for (uint32_t i = 0; i < device->n_passes; i++) {
            const struct pst_pass *pass = &orders->passes[PST_BODY][r][i];
            struct pst_global_pass *row = &q->passes[device->first_pass + i];
            uint64_t live = row->live_bytes;

            *row = (struct pst_global_pass){
                .op = pass->op,
                .stage = pass->stage,
                .microbatch = pass->microbatch,
                .start_ns = rows[0][r][i],
                .end_ns = rows[1][r][i],
                .live_bytes = rows[2][r][i] > live ? rows[2][r][i] : live,
            };
        }
    }
    return status;
}

/* --- stages ------------------------------------------------------------------------------------*/

/* A view that stays while others are built. */
static struct pst_stage_view *copy_view(struct pst_planner *planner, const struct pst_plan *plan,
                                        uint32_t s, struct pst_arena *arena)
{
    const struct pst_plan_stage *stage = &plan->stages[s];
    const struct pst_stage_question question = pst_planner_question(plan, s);
    struct pst_stage_view *view = pst_arena_array(arena, 1, sizeof *view);
    struct pst_stage_node *built = pst_view_build(planner, &question, view);
    struct pst_stage_node *nodes = pst_arena_array(arena, stage->n_nodes, sizeof *nodes);
    uint32_t n_producers = 0;

    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        nodes[i] = built[i];
        nodes[i].action = stage->actions[i];
        nodes[i].flags &= ~(uint32_t)PST_NODE_PRESET; /* decided by now */
        n_producers += built[i].n_producers;
    }
    view->producers = pst_arena_copy(arena, view->producers, n_producers, sizeof *view->producers);
    view->nodes = nodes;
    view->stage = s;
    view->n_stages = plan->n_stages;
    view->in_flight = stage->in_flight;
    view->capacity_bytes = pst_planner_capacity(planner, stage->ranks, stage->n_ranks);
    pst_view_transfers(planner, pst_plan_samples(stage), stage->n_microbatches, view);
    return view;
}

/* Bytes that each node can move: those it keeps or, after an earlier choice, those chosen there. */
static uint64_t *movable_bytes(const struct pst_planner *planner,
                               const struct pst_plan_stage *stage,
                               const struct pst_stage_view *view, struct pst_arena *arena)
{
    const struct pst_graph *graph = planner->in.graph;
    uint64_t *bytes = pst_arena_array(arena, stage->n_nodes, sizeof *bytes);
    bool *saved = pst_arena_array(arena, graph->n_tensors, sizeof *saved);
    uint32_t wanted = stage->n_guests > 0 ? PST_ACTION_PEER : PST_ACTION_KEEP;

    pst_plan_saved(stage, graph, saved);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const struct pst_op *op = &graph->ops[stage->nodes[i]];
        const struct pst_stage_node *node = pst_stage_node_at(view, i);

        for (uint32_t k = 0; k < op->n_out; k++) {
            const struct pst_tensor *tensor = &graph->tensors[op->out[k]];

            if (saved[op->out[k]] && stage->actions[i] == wanted &&
                (node->flags & PST_NODE_NO_OFFLOAD) == 0) {
                bytes[i] += pst_tensor_bytes(tensor, pst_plan_samples(stage));
            }
        }
    }
    return bytes;
}

static void make_stages(struct pst_global_question *q, struct pst_planner *planner,
                        const struct pst_plan *plan, struct pst_arena *arena)
{
    q->stages = pst_arena_array(arena, plan->n_stages, sizeof *q->stages);
    q->at = pst_arena_array(arena, plan->n_stages, sizeof(uint32_t *));
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        struct pst_stage_view *view = copy_view(planner, plan, s, arena);
        uint32_t *keepers = pst_arena_none(arena, stage->n_microbatches);

        q->at[s] = pst_arena_array(arena, 2 * (size_t)stage->n_microbatches, sizeof **q->at);
        for (uint32_t i = 0; i < stage->n_guests; i++) {
            keepers[stage->guests[i].microbatch] = q->device_of[stage->guests[i].rank];
        }
        q->stages[s] =
            (struct pst_global_stage){.device = q->device_of[stage->ranks[0]],
                                      .n_microbatches = stage->n_microbatches,
                                      .view = view,
                                      .keepers = keepers,
                                      .move_bytes = movable_bytes(planner, stage, view, arena)};
    }
}

/* The pass of a device that runs at that time: the first one that ends later; none: how many. */
static uint32_t running_at(const struct pst_global_question *q, uint32_t device, uint64_t ns)
{
    const struct pst_global_pass *passes = &q->passes[q->devices[device].first_pass];

    return PST_FIRST(i, q->devices[device].n_passes, passes[i].end_ns > ns);
}

static bool find_stay(const struct pst_global_in *in, uint32_t s, uint32_t microbatch,
                      uint32_t device, uint32_t *ret_first, uint32_t *ret_last)
{
    const struct pst_global_question *q = in->impl;
    const struct pst_global_stage *stage = s < in->n_stages ? &q->stages[s] : NULL;
    const struct pst_global_pass *own;
    const uint32_t *at;
    uint64_t leaves, bytes = 0;
    uint32_t n, running;

    if (stage == NULL || microbatch >= stage->n_microbatches || device >= in->n_devices ||
        device == stage->device || q->devices[device].n_passes == 0 ||
        !pst_global_are_alike(q, device, stage->device)) {
        return false;
    }
    at = q->at[s] + 2 * (size_t)microbatch;
    if (at[1] < at[0] + 3) {
        return false;
    }
    for (uint32_t i = 0; i < stage->view->n_nodes; i++) {
        bytes += stage->move_bytes[i];
    }
    n = q->devices[device].n_passes;
    own = &q->passes[q->devices[stage->device].first_pass];
    running = running_at(q, device, own[at[0]].end_ns);
    leaves = pst_plan_guest_leaves(
        own[at[0]].end_ns, own[at[0] + 1].end_ns,
        running < n ? q->passes[q->devices[device].first_pass + running].end_ns : own[at[0]].end_ns,
        pst_cost_transfer_ns(q->cost, bytes, q->first_rank[stage->device], q->first_rank[device]));
    *ret_first = running_at(q, device, leaves);
    *ret_last = running_at(q, device, own[at[1] - 2].end_ns);
    *ret_first = *ret_first < n ? *ret_first : n - 1;
    *ret_last = *ret_last < n ? *ret_last : n - 1;
    return true;
}

static void find_places(struct pst_global_question *q)
{
    for (uint32_t d = 0; d < q->in.n_devices; d++) {
        for (uint32_t i = 0; i < q->devices[d].n_passes; i++) {
            const struct pst_global_pass *pass = &q->passes[q->devices[d].first_pass + i];

            if (pass->op == PST_PASS_F) {
                q->at[pass->stage][2 * (size_t)pass->microbatch] = i;
            } else if (pass->op == PST_PASS_B || pass->op == PST_PASS_BW) {
                q->at[pass->stage][2 * (size_t)pass->microbatch + 1] = i;
            }
        }
    }
}

pst_status pst_global_question_init(struct pst_global_question *q, struct pst_planner *planner,
                                    struct pst_plan *plan, const struct pst_orders *orders,
                                    struct pst_arena *arena, struct pst_error *err)
{
    pst_status status;

    make_devices(q, planner, plan, orders, arena);
    make_links(q, &planner->in, arena);
    make_stages(q, planner, plan, arena);
    status = make_passes(q, &planner->in, plan, orders, arena, err);
    if (status == PST_OK) {
        find_places(q);
        q->in.size = sizeof q->in;
        q->in.n_stages = plan->n_stages;
        q->in.device_size = sizeof *q->devices;
        q->in.stage_size = sizeof *q->stages;
        q->in.pass_size = sizeof *q->passes;
        q->in.link_size = sizeof *q->links;
        q->in.devices = q->devices;
        q->in.stages = q->stages;
        q->in.passes = q->passes;
        q->in.links = q->links;
        q->in.impl = q;
        q->in.stay = find_stay;
        q->cost = planner->in.cost;
    }
    return status;
}
