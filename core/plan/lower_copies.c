/* SPDX-License-Identifier: Apache-2.0
 *
 * OFFLOAD and FETCH of one rank. What a micro-batch leaves is copied out behind its F, and back
 * behind the pass before the backward pass that first reads it, so that both are hidden behind
 * passes and there is room on the device for two micro-batches' worth: one on its way out, one on
 * its way in or read. Where no pass stands between, the bytes stay. Where the link is too slow for
 * that copies back begin some passes earlier, but never before the stage is through with the
 * micro-batch before.
 *
 * Both stand in the part of the pass that makes or reads the bytes, whatever the other one does:
 * what a part leaves in host memory, a later one fetches. Before the first pass of a part FETCH
 * stands at its head.
 */
#include <stdlib.h>

#include "base/util.h"
#include "plan/lower.h"
#include "plan/pass_calls.h"

/* The passes of one list of a rank. */
struct order {
    const struct pst_pass *passes;
    uint32_t n;
    uint32_t *base;               /* per stage: first row of its micro-batches in `at` */
    uint32_t *at[PST_PASS_R + 1]; /* [pass][row]: position in the list, or PST_NONE */
    bool part;                    /* one of several: what it leaves open, others do */
};

/* The buffers of a stage that are copied. */
struct moved {
    uint64_t *bytes;             /* [node]; NULL: nothing */
    struct pst_pass_calls *call; /* [pass] */
};

static int by_place(const void *a, const void *b)
{
    const struct pst_copy *x = *(const struct pst_copy *const *)a;
    const struct pst_copy *y = *(const struct pst_copy *const *)b;

    return PST_COMPARE_KEYS({x->behind + 1, y->behind + 1}, /* none comes first */
                            {x->op, y->op}, {x->waited_by, y->waited_by}, {x->order, y->order},
                            {y->node, x->node}); /* read by one call: as B goes */
}

static void find_moved(const struct pst_lowering *low, uint32_t s, struct pst_arena *arena,
                       struct moved *moved)
{
    const struct pst_plan_stage *stage = &low->plan->stages[s];

    if (!pst_plan_stage_has(stage, PST_ACTION_OFFLOAD)) {
        return;
    }
    moved->bytes = pst_arena_array(arena, stage->n_nodes, sizeof *moved->bytes);
    moved->call = pst_arena_array(arena, PST_I_BW + 1, sizeof *moved->call);
    pst_plan_offload_bytes(stage, low->graph, moved->bytes);
    pst_pass_calls_init(stage, low->graph, arena, moved->call);
}

/* Returns true if this backward pass is the first of its micro-batch to read what a node left. */
static bool reads_first(const struct pst_pass *pass, const struct moved *moved, uint32_t v)
{
    bool early = moved->call[PST_I_B].first_read[v] != PST_NONE;

    return pass->op == PST_PASS_BW || pass->op == (early ? PST_PASS_B : PST_PASS_W);
}

/* The position of that pass of a micro-batch in the list; PST_NONE: it is in another part. */
static uint32_t reading_pass(const struct order *order, const struct pst_pass *forward,
                             const struct moved *moved, uint32_t v)
{
    uint32_t row = order->base[forward->stage] + forward->microbatch;
    uint32_t fused = order->at[PST_PASS_BW][row];
    bool early = moved->call[PST_I_B].first_read[v] != PST_NONE;

    return fused != PST_NONE ? fused : order->at[early ? PST_PASS_B : PST_PASS_W][row];
}

/* Returns true if the pass before a FETCH is the last to read the same buffer of its own
   micro-batch: then the FETCH waits until that buffer is free. */
static bool takes_turns(const struct pst_pass *behind, uint32_t stage, const struct moved *moved,
                        uint32_t v)
{
    bool weights = moved->call[PST_I_W].first_read[v] != PST_NONE;

    return behind->stage == stage &&
           (behind->op == PST_PASS_BW || behind->op == (weights ? PST_PASS_W : PST_PASS_B));
}

/* Adds a FETCH before the pass at `reader`; `out`: the row of its OFFLOAD, or PST_NONE. */
static void add_fetch(const struct order *order, const struct pst_plan_stage *stage,
                      uint32_t reader, uint32_t out, const struct moved *moved, uint32_t v,
                      struct pst_copies *copies)
{
    const struct pst_pass *pass = &order->passes[reader];

    copies->rows[copies->n++] =
        (struct pst_copy){.op = PST_I_FETCH,
                          .behind = reader - 1, /* of the first: none */
                          .waits_behind = reader > 0 && takes_turns(&order->passes[reader - 1],
                                                                    pass->stage, moved, v),
                          .waited_by = reader,
                          .out = out,
                          .order = moved->call[pass->op].first_read[v],
                          .stage = pass->stage,
                          .microbatch = pass->microbatch,
                          .node = stage->nodes[v]};
}

/* The copies of the micro-batch whose F stands at `at`; `next`: the next F of the stage, or none.
 */
static void add_copies(const struct pst_lowering *low, const struct order *order, uint32_t at,
                       uint32_t next, const struct moved *moved, struct pst_copies *copies)
{
    const struct pst_pass *pass = &order->passes[at];
    const struct pst_plan_stage *stage = &low->plan->stages[pass->stage];

    for (uint32_t v = 0; v < stage->n_nodes; v++) {
        uint32_t reader = moved->bytes[v] > 0 ? reading_pass(order, pass, moved, v) : PST_NONE;

        if (moved->bytes[v] == 0 || reader == at + 1) {
            continue;
        }
        copies->rows[copies->n++] = (struct pst_copy){.op = PST_I_OFFLOAD,
                                                      .behind = at,
                                                      .waits_behind = true,
                                                      .waited_by = next,
                                                      .out = PST_NONE,
                                                      .order = v,
                                                      .stage = pass->stage,
                                                      .microbatch = pass->microbatch,
                                                      .node = stage->nodes[v]};
        if (reader != PST_NONE) {
            add_fetch(order, stage, reader, copies->n - 1, moved, v, copies);
        }
    }
}

/* Adds the FETCHes of a backward pass whose F is in an earlier part. */
static void add_fetches(const struct pst_lowering *low, const struct order *order, uint32_t at,
                        const struct moved *moved, struct pst_copies *copies)
{
    const struct pst_pass *pass = &order->passes[at];
    const struct pst_plan_stage *stage = &low->plan->stages[pass->stage];

    for (uint32_t v = 0; v < stage->n_nodes; v++) {
        if (moved->bytes[v] > 0 && reads_first(pass, moved, v)) {
            add_fetch(order, stage, at, PST_NONE, moved, v, copies);
        }
    }
}

/* --- how early ---------------------------------------------------------------------------------*/

static uint64_t copy_ns(const struct pst_lowering *low, const struct moved *moved,
                        const struct pst_copy *copy)
{
    const struct pst_plan_stage *stage = &low->plan->stages[copy->stage];
    uint32_t v = pst_plan_node(stage, copy->node);
    struct pst_cost_at at;

    return pst_cost_host_ns(pst_cost_on(low->cost, stage->ranks, stage->n_ranks, &at),
                            moved[copy->stage].bytes[v]) *
           (uint64_t)low->cost->cluster->link_directions;
}

/* Returns how late the FETCHes of one pass are, at worst, if they begin with the pass. */
static uint64_t late_by(const struct pst_lowering *low, const struct order *order,
                        const struct moved *moved, struct pst_copy *const *group, uint32_t n)
{
    const struct pst_pass *reader = &order->passes[group[0]->waited_by];
    const struct pst_pass_calls *calls = &moved[reader->stage].call[reader->op];
    uint64_t pass_ns = pst_lowering_pass_ns(low, reader), end_ns = 0, worst = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t need_ns = pass_ns / calls->n_calls * group[i]->order;

        end_ns += copy_ns(low, moved, group[i]);
        worst = end_ns > need_ns && end_ns - need_ns > worst ? end_ns - need_ns : worst;
    }
    return worst;
}

/* Passes earlier until there is time enough; not past what the stage does backward before, nor into
   the F of the micro-batch. */
static void begin_earlier(const struct pst_lowering *low, const struct order *order,
                          const struct moved *moved, const struct pst_copies *copies,
                          struct pst_copy *const *group, uint32_t n)
{
    const struct pst_pass *passes = order->passes;
    uint32_t stage = group[0]->stage, behind = group[0]->behind, out = group[0]->out;
    uint32_t first = out != PST_NONE ? copies->rows[out].behind + 1 : 0;
    uint64_t late_ns = late_by(low, order, moved, group, n);
    uint64_t ahead_ns = pst_lowering_pass_ns(low, &passes[behind]);

    while (ahead_ns < late_ns && behind > first &&
           !(passes[behind].stage == stage && passes[behind].op != PST_PASS_F) &&
           !(passes[behind - 1].stage == stage && passes[behind - 1].op != PST_PASS_F)) {
        ahead_ns += pst_lowering_pass_ns(low, &passes[--behind]);
    }
    for (uint32_t i = 0; i < n; i++) {
        group[i]->behind = behind;
    }
}

static void place_copies(const struct pst_lowering *low, const struct order *order,
                         const struct moved *moved, struct pst_copies *copies)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        copies->places[i] = &copies->rows[i];
    }
    if (copies->n == 0) {
        return;
    }
    qsort(copies->places, copies->n, sizeof(struct pst_copy *), by_place);
    if (!low->plan->spread_sends) {
        return; /* memory is short */
    }
    for (uint32_t i = 0, end; i < copies->n; i = end) {
        for (end = i + 1; end < copies->n && copies->places[end]->op == copies->places[i]->op &&
                          copies->places[end]->waited_by == copies->places[i]->waited_by;
             end++) {
        }
        if (copies->places[i]->op == PST_I_FETCH && copies->places[i]->behind != PST_NONE) {
            begin_earlier(low, order, moved, copies, &copies->places[i], end - i);
        }
    }
    qsort(copies->places, copies->n, sizeof(struct pst_copy *), by_place);
}

/* Who waits for the way out of a micro-batch that no F follows, where memory is short: the next
   pass of the stage. */
static uint32_t next_of_stage(const struct order *order, uint32_t at)
{
    uint32_t next = at + 1;

    while (next < order->n && order->passes[next].stage != order->passes[at].stage) {
        next++;
    }
    return next < order->n ? next : PST_NONE;
}

static size_t most_copies(const struct pst_lowering *low, const struct order *order,
                          const struct moved *moved)
{
    size_t room = 0;

    for (uint32_t p = 0; p < order->n; p++) {
        const struct pst_pass *pass = &order->passes[p];

        if (moved[pass->stage].bytes != NULL) {
            room += 2 * (size_t)low->plan->stages[pass->stage].n_nodes;
        }
    }
    return room;
}

/* All rows, backwards. What no F of a part waits for, the first of a later part does. */
static void add_all(const struct pst_lowering *low, const struct order *order,
                    const struct moved *moved, uint32_t *next, struct pst_copies *copies)
{
    for (uint32_t p = order->n; p-- > 0;) {
        const struct pst_pass *pass = &order->passes[p];
        uint32_t row = order->base[pass->stage] + pass->microbatch;

        if (moved[pass->stage].bytes == NULL) {
            continue;
        }
        if (pass->op == PST_PASS_F) {
            uint32_t waiter = next[pass->stage];

            if (waiter == PST_NONE && !low->plan->spread_sends && !order->part) {
                waiter = next_of_stage(order, p);
            }
            add_copies(low, order, p, waiter, &moved[pass->stage], copies);
            next[pass->stage] = p;
        } else if (order->at[PST_PASS_F][row] == PST_NONE) {
            add_fetches(low, order, p, &moved[pass->stage], copies);
        }
    }
}

static void copies_of(const struct pst_list *list, const struct order *order,
                      struct pst_arena *arena, struct pst_copies *ret_copies)
{
    const struct pst_lowering *low = list->parts->low;
    uint32_t n_stages = low->plan->n_stages;
    struct moved *moved = pst_arena_array(arena, n_stages, sizeof *moved);
    uint32_t *next = pst_arena_none(arena, n_stages);
    struct pst_copies copies = {0};
    size_t room;

    for (uint32_t s = 0; s < n_stages; s++) {
        if (list->replica[s] != PST_NONE) {
            find_moved(low, s, arena, &moved[s]);
        }
    }
    room = most_copies(low, order, moved);
    copies.rows = pst_arena_array(arena, room, sizeof *copies.rows);
    copies.places = pst_arena_array(arena, room, sizeof(struct pst_copy *));
    add_all(low, order, moved, next, &copies);
    place_copies(low, order, moved, &copies);
    *ret_copies = copies;
}

/* --- parts -------------------------------------------------------------------------------------*/

/* Positions of the passes; a part reaches into the batch after the one that it closes. */
static void index_order(const struct pst_plan *plan, struct pst_arena *arena, struct order *order)
{
    uint32_t rows = 0;

    order->base = pst_arena_array(arena, plan->n_stages, sizeof *order->base);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        order->base[s] = rows;
        rows += 2 * plan->stages[s].n_microbatches;
    }
    for (uint32_t op = 0; op <= PST_PASS_R; op++) {
        order->at[op] = pst_arena_none(arena, rows);
    }
    for (uint32_t i = 0; i < order->n; i++) {
        const struct pst_pass *pass = &order->passes[i];

        order->at[pass->op][order->base[pass->stage] + pass->microbatch] = i;
    }
}

static bool offloads(const struct pst_list *list)
{
    const struct pst_plan *plan = list->parts->plan;
    bool any = false;

    for (uint32_t s = 0; s < plan->n_stages && !any; s++) {
        any = list->replica[s] != PST_NONE &&
              pst_plan_stage_has(&plan->stages[s], PST_ACTION_OFFLOAD);
    }
    return any;
}

void pst_lowering_copies(const struct pst_list *list, struct pst_arena *arena,
                         struct pst_copies *ret_copies)
{
    const struct pst_plan *plan = list->parts->plan;
    struct order order = {.passes = list->passes, .n = list->n_passes, .part = plan->asynchronous};

    *ret_copies = (struct pst_copies){0};
    if (!list->parts->low->training || !offloads(list)) {
        return;
    }
    index_order(plan, arena, &order);
    copies_of(list, &order, arena, ret_copies);
}
