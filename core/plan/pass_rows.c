/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/pass_rows.h"

#include <string.h>

#include "base/saturate.h"
#include "plan/gathers.h"
#include "plan/shards.h"

static const uint32_t pass_ops[] = {PST_I_F, PST_I_B, PST_I_W, PST_I_BW};
#define N_PASS_OPS (sizeof pass_ops / sizeof *pass_ops)

/* --- rows --------------------------------------------------------------------------------------*/

struct maker {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    uint32_t stage;
    struct pst_pass_rows *rows;
    const struct pst_pass_gather *gathers;
    uint32_t n_gathers, n_posted, n_awaited;
    bool sum_is_open;
};

static void add_row(struct maker *m, uint8_t kind, uint32_t at, uint64_t ns)
{
    m->rows->rows[m->rows->n++] = (struct pst_pass_row){kind, at, ns};
}

/* As pst_build_gathered. */
static void gather_before(struct maker *m, uint32_t call)
{
    const uint32_t ahead = m->plan->prefetch;

    while (m->n_awaited < m->n_gathers && m->gathers[m->n_awaited].call == call) {
        for (; m->n_posted < m->n_gathers && m->n_posted <= m->n_awaited + ahead; m->n_posted++) {
            add_row(m, PST_ROW_POST, m->n_posted % (1 + ahead),
                    pst_plan_gather_ns(m->plan, m->cost, m->stage, m->gathers[m->n_posted].bytes));
        }
        add_row(m, PST_ROW_WAIT, m->n_awaited++ % (1 + ahead), 0);
    }
}

static void end_sum(struct maker *m)
{
    if (m->sum_is_open) {
        add_row(m, PST_ROW_WAIT, 1 + m->plan->prefetch, 0);
    }
    m->sum_is_open = false;
}

static void post_sum(struct maker *m, uint64_t bytes)
{
    end_sum(m);
    add_row(m, PST_ROW_POST, 1 + m->plan->prefetch,
            pst_plan_scatter_ns(m->plan, m->cost, m->stage, bytes));
    m->sum_is_open = true;
    if (m->plan->prefetch == 0) {
        end_sum(m);
    }
}

/* As pst_build_add. */
static void sum_after(struct maker *m, uint32_t node)
{
    const struct pst_op *op = &m->graph->ops[m->plan->stages[m->stage].nodes[node]];
    uint32_t end;

    for (uint32_t i = 0; i < op->n_param; i++) {
        const uint32_t p = op->param[i];

        if (p != PST_NONE && pst_plan_scatters(m->plan, m->stage, p) &&
            !pst_scatters_in_layer(m->plan, m->graph, m->stage, p)) {
            post_sum(m, m->graph->params[p].elems * sizeof(float));
        }
    }
    if (pst_scatters_layer(m->plan, m->graph, m->stage, node, &end)) {
        post_sum(m, pst_scatters_layer_bytes(m->plan, m->graph, m->stage, node, end));
    }
}

static void make_rows(struct maker *m, const struct pst_pass_calls *pass, bool sums,
                      struct pst_arena *arena, struct pst_pass_rows *rows)
{
    size_t most = 2 * (size_t)m->n_gathers;

    for (uint32_t c = 0; c < pass->n_calls; c++) {
        most += 3 + 2 * m->graph->ops[m->plan->stages[m->stage].nodes[pass->calls[c].node]].n_param;
    }
    rows->rows = pst_arena_array(arena, most, sizeof *rows->rows);
    m->rows = rows;
    m->n_posted = m->n_awaited = 0;
    for (uint32_t c = 0; c < pass->n_calls; c++) {
        gather_before(m, c);
        add_row(m, PST_ROW_KERNEL, c, 0);
        if (sums && m->plan->zero >= 2 && pass->calls[c].pass == 2) {
            sum_after(m, pass->calls[c].node);
        }
    }
    end_sum(m);
}

void pst_stage_rows_make(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t stage, struct pst_arena *arena,
                         struct pst_stage_rows *ret_rows)
{
    struct maker m = {.plan = plan, .graph = graph, .cost = cost, .stage = stage};

    *ret_rows = (struct pst_stage_rows){.stage = stage};
    pst_pass_calls_init(&plan->stages[stage], graph, arena, ret_rows->calls);
    for (uint32_t i = 0; i < N_PASS_OPS; i++) {
        const struct pst_pass_calls *pass = &ret_rows->calls[pass_ops[i]];
        struct pst_pass_gather *gathers;

        m.n_gathers = pst_pass_gathers_list(plan, graph, stage, pass, arena, &gathers);
        m.gathers = gathers;
        make_rows(&m, pass, false, arena, &ret_rows->plain[pass_ops[i]]);
        make_rows(&m, pass, true, arena, &ret_rows->summed[pass_ops[i]]);
    }
}

/* --- times -------------------------------------------------------------------------------------*/

uint64_t pst_pass_walk(const struct pst_pass_rows *rows, struct pst_pass_walk *walk, uint64_t now)
{
    uint64_t ends[PST_MOST_PREFETCH + 2], lane_free = now;

    for (uint32_t i = 0; i < rows->n; i++) {
        const struct pst_pass_row *row = &rows->rows[i];

        switch (row->kind) {
        case PST_ROW_POST:
            lane_free = pst_sat_add_ns(lane_free > now ? lane_free : now, row->ns);
            ends[row->at] = lane_free;
            now = walk->serial ? lane_free : now;
            break;
        case PST_ROW_WAIT:
            now = ends[row->at] > now ? ends[row->at] : now;
            break;
        default:
            if (walk->until != NULL && walk->until[row->at] > now) {
                walk->stall_ns = pst_sat_add_ns(walk->stall_ns, walk->until[row->at] - now);
                now = walk->until[row->at];
            }
            now = pst_sat_add_ns(now, walk->call_ns[row->at]);
            if (walk->until != NULL) {
                walk->until[row->at] = 0;
            }
            if (walk->call_end != NULL) {
                walk->call_end[row->at] = now;
            }
            break;
        }
    }
    return now;
}

void pst_pass_call_ns(const struct pst_plan_stage *stage, const struct pst_cost_model *cost,
                      const struct pst_pass_calls *pass, uint32_t slice, bool placed,
                      uint64_t *ret_ns)
{
    const struct pst_cost_model of = pst_cost_of_slice(cost, slice);
    struct pst_pass_scale scale;
    struct pst_cost_at at;
    struct pst_times times;

    cost = pst_cost_on(&of, stage->ranks, stage->n_ranks, &at);
    scale = pst_cost_host_scale(cost, stage->nodes, stage->n_nodes, pst_plan_samples(stage));
    for (uint32_t c = 0; c < pass->n_calls; c++) {
        const struct pst_pass_call *call = &pass->calls[c];

        pst_cost_share(cost, &scale, stage->nodes[call->node], pst_plan_samples(stage), &times);
        ret_ns[c] = call->replay && placed ? 0
                    : call->pass == 0      ? times.forward_ns
                    : call->pass == 1      ? times.backward_input_ns
                                           : times.backward_weight_ns;
    }
}

void pst_stage_times(const struct pst_stage_rows *rows, const struct pst_plan *plan,
                     const struct pst_graph *graph, const struct pst_cost_model *cost,
                     uint32_t slice, bool inside, uint64_t *ret_ns, uint64_t *ret_summed_ns)
{
    const struct pst_plan_stage *stage = &plan->stages[rows->stage];
    struct pst_arena arena = {0};

    pst_plan_pass_ns(stage, graph, cost, slice, inside, ret_ns);
    memcpy(ret_summed_ns, ret_ns, (PST_I_R + 1) * sizeof *ret_ns);
    for (uint32_t i = 0; i < N_PASS_OPS && plan->zero >= 2; i++) {
        const uint32_t op = pass_ops[i];
        uint64_t *call_ns = pst_arena_array(&arena, rows->calls[op].n_calls, sizeof *call_ns);
        struct pst_pass_walk walk = {.call_ns = call_ns,
                                     .serial = pst_cost_meets_alone(cost, plan->n_devices)};

        pst_pass_call_ns(stage, cost, &rows->calls[op], slice, !inside, call_ns);
        ret_ns[op] = pst_pass_walk(&rows->plain[op], &walk, 0);
        ret_summed_ns[op] = pst_pass_walk(&rows->summed[op], &walk, 0);
    }
    pst_arena_finish(&arena);
}

void pst_stage_waits(const struct pst_plan *plan, const struct pst_graph *graph,
                     const struct pst_cost_model *cost, uint32_t stage,
                     uint64_t ret_ns[PST_I_BW + 1])
{
    uint64_t alone[PST_I_R + 1], plain[PST_I_R + 1], summed[PST_I_R + 1];
    struct pst_stage_rows rows;
    struct pst_arena arena = {0};

    memset(ret_ns, 0, (PST_I_BW + 1) * sizeof *ret_ns);
    if (plan->zero < 2) {
        return;
    }
    pst_stage_rows_make(plan, graph, cost, stage, &arena, &rows);
    pst_stage_times(&rows, plan, graph, cost, PST_NONE, true, plain, summed);
    pst_plan_pass_ns(&plan->stages[stage], graph, cost, PST_NONE, true, alone);
    for (uint32_t i = 0; i < N_PASS_OPS; i++) {
        ret_ns[pass_ops[i]] = summed[pass_ops[i]] - alone[pass_ops[i]];
    }
    pst_arena_finish(&arena);
}
