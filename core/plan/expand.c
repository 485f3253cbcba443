/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism: from a plan of groups to one of ranks. The parts of a group do the same, each
 * with the parts of the other groups that are its like:
 *
 *   groups   0          F SEND 1                 1          RECV 0 F
 *   ranks    0    1     F SEND 2   F SEND 3      2    3     RECV 0 F   RECV 1 F
 *
 * Where groups have different numbers of parts, what they exchange is whole in each part. Every
 * part of the receiver gets it once, from the part that is as far along in the sender:
 *
 *   groups   0          F SEND 1                 1          RECV 0 F
 *   ranks    0          F SEND 1 SEND 2          1    2     RECV 0 F   RECV 0 F
 *
 *   ranks    0    1     F SEND 2   F             2          RECV 0 F
 */
#include <stdlib.h>

#include "base/memory.h"
#include "plan/plan.h"

struct expansion {
    const struct pst_plan *plan; /* of groups */
    struct pst_arena *arena;
    uint32_t *size, *first; /* [group] its parts, and the rank that is the first of them */
    bool unlike;            /* degrees */
};

static const uint32_t *copy_numbers(struct pst_arena *arena, const uint32_t *numbers, uint32_t n)
{
    return pst_arena_copy(arena, numbers, n, sizeof *numbers);
}

/* --- groups ------------------------------------------------------------------------------------*/

static void number_ranks(struct expansion *x, const struct pst_graph *graph, uint32_t n_ranks,
                         struct pst_arena *arena)
{
    const struct pst_plan *plan = x->plan;
    uint32_t n_idle = plan->n_devices, left = n_ranks, first = 0;

    x->size = pst_arena_array(arena, plan->n_devices, sizeof *x->size);
    x->first = pst_arena_array(arena, plan->n_devices, sizeof *x->first);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        const uint32_t size = pst_graph_parts(graph, stage->nodes[0]);

        for (uint32_t i = 0; i < stage->n_ranks; i++) {
            uint32_t *of = &x->size[stage->ranks[i]];

            PST_ASSERT(*of == 0 || *of == size);
            left -= *of == 0 ? size : 0;
            n_idle -= *of == 0;
            *of = size;
        }
    }
    for (uint32_t g = 0; g < plan->n_devices; g++) {
        x->size[g] = x->size[g] > 0 ? x->size[g] : left / n_idle;
        x->first[g] = first;
        first += x->size[g];
    }
    PST_ASSERT(first == n_ranks);
}

/* --- stages, edges, ties -----------------------------------------------------------------------*/

static const uint32_t *ranks_of(const struct expansion *x, const struct pst_plan_stage *stage,
                                uint32_t tensor)
{
    uint32_t *ranks = pst_arena_array(x->arena, (size_t)stage->n_ranks * tensor, sizeof *ranks);

    for (uint32_t i = 0; i < stage->n_ranks * tensor; i++) {
        ranks[i] = x->first[stage->ranks[i / tensor]] + i % tensor;
    }
    return ranks;
}

static void expand_stage(const struct expansion *x, const struct pst_plan_stage *stage,
                         struct pst_plan_stage *ret_stage)
{
    struct pst_arena *arena = x->arena;
    struct pst_plan_guest *guests =
        pst_arena_copy(arena, stage->guests, stage->n_guests, sizeof *guests);
    const uint32_t tensor = x->size[stage->ranks[0]];

    PST_ASSERT(stage->tensor == 1);
    for (uint32_t i = 0; i < stage->n_guests; i++) {
        PST_ASSERT(x->size[guests[i].rank] == tensor); /* a part is a guest of its like */
        guests[i].rank = x->first[guests[i].rank];
    }
    *ret_stage = *stage;
    ret_stage->tensor = tensor;
    ret_stage->n_ranks = stage->n_ranks * tensor;
    ret_stage->ranks = ranks_of(x, stage, tensor);
    ret_stage->guests = guests;
    ret_stage->nodes = copy_numbers(arena, stage->nodes, stage->n_nodes);
    ret_stage->actions = pst_arena_copy(arena, stage->actions, stage->n_nodes, 1);
    ret_stage->replays =
        pst_arena_copy(arena, stage->replays, stage->n_replays, sizeof *stage->replays);
}

static void copy_tables(const struct pst_plan *plan, struct pst_plan *expanded)
{
    struct pst_arena *arena = &expanded->arena;

    expanded->edges = pst_arena_copy(arena, plan->edges, plan->n_edges, sizeof *plan->edges);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        expanded->edges[e].tensors =
            copy_numbers(arena, plan->edges[e].tensors, plan->edges[e].n_tensors);
    }
    expanded->ties = pst_arena_copy(arena, plan->ties, plan->n_ties, sizeof *plan->ties);
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        expanded->ties[t].stages =
            copy_numbers(arena, plan->ties[t].stages, plan->ties[t].n_stages);
    }
}

/* --- devices -----------------------------------------------------------------------------------*/

/* The part of a group of `n_from` from which a part of a group of `n_to` receives. */
static uint32_t sender_of(uint32_t part, uint32_t n_to, uint32_t n_from)
{
    return (uint32_t)((uint64_t)part * n_from / n_to);
}

/* How many instructions of the part's list one of its group's becomes: a SEND one for each part of
   the peer that receives from this one, from rank *ret_peer on. */
static uint32_t copies_of(const struct expansion *x, const struct pst_instr *instr, uint32_t group,
                          uint32_t part, uint32_t *ret_peer)
{
    const uint32_t n_own = x->size[group], n_peer = x->size[instr->peer];
    uint32_t at = 0, n = 0;

    *ret_peer = 0;
    if (instr->op == PST_I_RECV) {
        *ret_peer = x->first[instr->peer] + sender_of(part, n_own, n_peer);
    }
    if (instr->op != PST_I_SEND) {
        return 1;
    }
    while (at < n_peer && sender_of(at, n_peer, n_own) < part) {
        at++;
    }
    *ret_peer = x->first[instr->peer] + at;
    for (; at < n_peer && sender_of(at, n_peer, n_own) == part; at++) {
        n++;
    }
    return n;
}

/* at: [instruction] where its copies begin in the list of the part. */
static void expand_waits(const struct expansion *x, const struct pst_instr *instr,
                         const uint32_t *at, struct pst_instr *io_copy)
{
    uint32_t *waits = NULL, n = 0;

    for (uint32_t w = 0; w < instr->n_waits; w++) {
        n += at[instr->waits[w] + 1] - at[instr->waits[w]];
    }
    if (n > 0) {
        waits = pst_arena_array(x->arena, n, sizeof *waits);
    }
    io_copy->n_waits = n;
    io_copy->waits = waits;
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        for (uint32_t i = at[instr->waits[w]]; i < at[instr->waits[w] + 1]; i++) {
            *waits++ = i;
        }
    }
}

/* A wait for a SEND is one for each of its copies, and none where the part sends nothing. */
static const struct pst_instr *expand_list(const struct expansion *x, const struct pst_instr *list,
                                           uint32_t n, uint32_t group, uint32_t part,
                                           uint32_t *ret_n)
{
    uint32_t *at = pst_alloc((size_t)n + 1, sizeof *at), peer;
    struct pst_instr *copies;

    for (uint32_t i = 0; i < n; i++) {
        at[i + 1] = at[i] + copies_of(x, &list[i], group, part, &peer);
    }
    *ret_n = at[n];
    copies = pst_arena_array(x->arena, at[n], sizeof *copies);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_instr copy = list[i];

        copies_of(x, &list[i], group, part, &copy.peer);
        expand_waits(x, &list[i], at, &copy);
        for (uint32_t c = at[i]; c < at[i + 1]; c++, copy.peer++) {
            copies[c] = copy;
        }
    }
    free(at);
    return copies;
}

/* Where degrees differ, a part that sends nothing keeps less than its group: nothing is stated. */
static void expand_device(const struct expansion *x, uint32_t group, uint32_t part,
                          struct pst_plan_device *ret_device)
{
    const struct pst_plan_device *device = &x->plan->devices[group];

    *ret_device = *device;
    if (x->unlike) {
        ret_device->peak_bytes = ret_device->arena_bytes = ret_device->host_bytes = 0;
    }
    ret_device->kind = pst_arena_strdup(x->arena, device->kind);
    ret_device->body =
        expand_list(x, device->body, device->n_instrs, group, part, &ret_device->n_instrs);
    ret_device->fill =
        expand_list(x, device->fill, device->n_fill, group, part, &ret_device->n_fill);
    ret_device->drain =
        expand_list(x, device->drain, device->n_drain, group, part, &ret_device->n_drain);
}

/* --- the plan ----------------------------------------------------------------------------------*/

static const struct pst_plan_stated *copy_stated(struct pst_arena *arena,
                                                 const struct pst_plan *plan)
{
    struct pst_plan_stated *stated;

    if (plan->stated == NULL) {
        return NULL;
    }
    stated = pst_arena_copy(arena, plan->stated, 1, sizeof *stated);
    stated->stage_peaks = pst_arena_copy(arena, plan->stated->stage_peaks, plan->n_stages,
                                         sizeof *stated->stage_peaks);
    return stated;
}

void pst_plan_expand(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t n_ranks,
                     struct pst_plan **ret_plan)
{
    struct pst_plan *expanded = pst_alloc(1, sizeof *expanded);
    struct pst_arena *arena = &expanded->arena, groups = {0};
    struct expansion x = {.plan = plan, .arena = arena, .unlike = graph->degree_of != NULL};

    *expanded = *plan;
    *arena = (struct pst_arena){0};
    number_ranks(&x, graph, n_ranks, &groups);
    expanded->n_devices = n_ranks;
    expanded->stages = pst_arena_array(arena, plan->n_stages, sizeof *plan->stages);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        expand_stage(&x, &plan->stages[s], &expanded->stages[s]);
    }
    copy_tables(plan, expanded);
    expanded->devices = pst_arena_array(arena, expanded->n_devices, sizeof *plan->devices);
    for (uint32_t g = 0; g < plan->n_devices; g++) {
        for (uint32_t part = 0; part < x.size[g]; part++) {
            expand_device(&x, g, part, &expanded->devices[x.first[g] + part]);
        }
    }
    expanded->times = pst_arena_strdup(arena, plan->times);
    expanded->stated = copy_stated(arena, plan);
    expanded->config_json = pst_arena_strdup(arena, plan->config_json);
    expanded->partitioner = pst_arena_strdup(arena, plan->partitioner);
    expanded->scheduler = pst_arena_strdup(arena, plan->scheduler);
    expanded->memopt = pst_arena_strdup(arena, plan->memopt);
    pst_arena_finish(&groups);
    *ret_plan = expanded;
}
