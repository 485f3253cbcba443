/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/memopt_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/saturate.h"
#include "base/util.h"
#include "planner/eval.h"
#include "reports/rows.h"

#define MAX_SINGLE 40 /* nodes, each with a row of its own */

static const char *action_name(uint32_t action)
{
    static const char *const names[] = {"keep", "recompute", "offload", "peer"};

    return names[action];
}

/* Consecutive nodes with one action, as a row. */
struct block {
    uint32_t first, n;
    uint64_t saved, freed, replay_ns;
};

static uint64_t in_flight(const struct pst_memopt_result *result)
{
    return result->view.in_flight > 0 ? result->view.in_flight : 1;
}

/* Copies of dropped or offloaded bytes that need no place. */
static uint64_t freed_copies(const struct pst_memopt_result *result, uint32_t action)
{
    uint64_t k = in_flight(result);
    uint64_t staged = result->view.staging_copies < k ? result->view.staging_copies : k;

    return action == PST_ACTION_RECOMPUTE ? k - 1 : action == PST_ACTION_OFFLOAD ? k - staged : 0;
}

/* Bytes of parked micro-batches that the node's action frees. */
static uint64_t freed_bytes(const struct pst_memopt_result *result, uint32_t v)
{
    uint32_t action = result->actions[v];
    uint64_t saved = pst_stage_node_at(&result->view, v)->saved_bytes;
    uint64_t left = result->left != NULL && action == PST_ACTION_RECOMPUTE ? result->left[v] : 0;

    return pst_sat_mul(freed_copies(result, action), saved > left ? saved - left : 0);
}

/* How often each node runs again. */
static void count_replays(const struct pst_memopt_result *result, uint32_t *ret_times)
{
    memset(ret_times, 0, result->view.n_nodes * sizeof *ret_times);
    for (uint32_t i = 0; i < result->n_events; i++) {
        ret_times[result->events[i].node] += result->events[i].pass == PST_MEMORY_REPLAY;
    }
}

static struct block block_at(const struct pst_memopt_result *result, const uint32_t *times,
                             uint32_t first)
{
    struct block b = {.first = first};
    bool together = result->view.n_nodes > MAX_SINGLE;
    uint32_t v = first;

    do {
        const struct pst_stage_node *node = pst_stage_node_at(&result->view, v);

        b.saved = pst_sat_add(b.saved, node->saved_bytes);
        b.freed = pst_sat_add(b.freed, freed_bytes(result, v));
        b.replay_ns = pst_sat_add(b.replay_ns, pst_sat_mul(times[v], node->forward_ns));
        b.n++;
        v++;
    } while (together && v < result->view.n_nodes && result->actions[v] == result->actions[first]);
    return b;
}

/* --- for people --------------------------------------------------------------------------------*/

/* Does a replay outside of v's own run read it? */
static bool is_replay_source(const struct pst_memopt_result *result, uint32_t v)
{
    for (uint32_t u = v + 1; u < result->view.n_nodes; u++) {
        const struct pst_stage_node *node = pst_stage_node_at(&result->view, u);

        for (uint32_t j = 0; result->actions[u] == PST_ACTION_RECOMPUTE && j < node->n_producers;
             j++) {
            if (result->view.producers[node->first_producer + j] == v) {
                return true;
            }
        }
    }
    return false;
}

/* Why a node has its action: what it brings, or what stands against another one. */
static const char *reason(const struct pst_memopt_result *result, const struct block *b,
                          char text[96])
{
    const struct pst_stage_node *node = pst_stage_node_at(&result->view, b->first);
    const struct pst_memory_sums *sums = &result->sums;
    uint32_t action = result->actions[b->first];
    char bytes[32];

    text[0] = '\0';
    if (action == PST_ACTION_KEEP) {
        if (b->n == 1 && (node->flags & PST_NODE_NO_RECOMPUTE) != 0) {
            snprintf(text, 96, "must not be replayed");
        } else if (b->n == 1 && is_replay_source(result, b->first)) {
            snprintf(text, 96, "a replay reads it");
        }
    } else if (action == PST_ACTION_RECOMPUTE && b->freed == 0) {
        snprintf(text, 96, "%s", b->saved > 0 ? "of the active micro-batch only" : "");
    } else if (action == PST_ACTION_RECOMPUTE && b->replay_ns > 0) {
        double per_us = (double)b->freed / ((double)b->replay_ns / 1000.0);

        snprintf(text, 96, "%s per us",
                 pst_format_bytes(bytes, per_us < 1e18 ? (uint64_t)per_us : (uint64_t)1e18));
    } else if (action == PST_ACTION_OFFLOAD) {
        snprintf(text, 96, "%s",
                 sums->link_ns <= pst_sat_add(sums->total_ns, sums->replay_ns)
                     ? "hidden by the passes"
                     : "passes wait for the link");
    }
    return text;
}

static uint64_t cost_ns(const struct pst_memopt_result *result, const struct block *b)
{
    switch (result->actions[b->first]) {
    case PST_ACTION_RECOMPUTE:
        return b->replay_ns;
    case PST_ACTION_OFFLOAD:
        return pst_eval_link_ns(&result->view, b->saved);
    default:
        return 0;
    }
}

static void print_block(const struct pst_memopt_result *result, const struct block *b,
                        struct pst_table *table)
{
    const struct pst_costed_node *nodes = result->stage.problem->graph->nodes;
    const struct pst_stage_node *first = pst_stage_node_at(&result->view, b->first);
    uint32_t action = result->actions[b->first];
    char text[96];

    if (b->n == 1) {
        pst_table_cell(table, "%.60s", nodes[first->node].name);
        pst_table_cell(table, "%.24s", first->op != NULL ? first->op : "");
    } else {
        const struct pst_stage_node *last = pst_stage_node_at(&result->view, b->first + b->n - 1);

        pst_table_cell(table, "%.40s ... %.40s", nodes[first->node].name, nodes[last->node].name);
        pst_table_cell(table, "%u nodes", b->n);
    }
    pst_table_cell(table, "%s", action_name(action));
    pst_table_cell(table, "%s", pst_format_bytes(text, b->saved));
    pst_table_cell(table, "%s", action == PST_ACTION_KEEP ? "" : pst_format_bytes(text, b->freed));
    pst_table_cell(table, "%s",
                   action == PST_ACTION_KEEP ? "" : pst_format_ns(text, cost_ns(result, b)));
    pst_table_cell(table, "%s", reason(result, b, text));
}

/* times: [n_nodes] how often each runs again. */
static void print_nodes(const struct pst_memopt_result *result, const uint32_t *times, bool color,
                        FILE *out)
{
    struct pst_table table;
    struct block b;

    pst_table_init(&table, "~operator|9kind|action|>saved|8>frees|>time|7~why");
    for (uint32_t v = 0; v < result->view.n_nodes; v += b.n) {
        b = block_at(result, times, v);
        print_block(result, &b, &table);
    }
    pst_table_end(&table, out, "  ", color);
}

/* The replays in their order, where they are listed. */
static void print_replays(const struct pst_memopt_result *result, FILE *out)
{
    const struct pst_costed_node *nodes = result->stage.problem->graph->nodes;

    for (uint32_t i = 0; i < result->replays.n; i++) {
        const struct pst_replay *r = &result->replays.at[i];

        fprintf(out, i == 0 ? "\nreplays   " : "          ");
        fprintf(out, "%.60s to %.60s before the backward of %.60s\n",
                nodes[pst_stage_node_at(&result->view, r->first)->node].name,
                nodes[pst_stage_node_at(&result->view, r->last)->node].name,
                nodes[pst_stage_node_at(&result->view, r->before)->node].name);
    }
}

static void print_sums(const struct pst_memopt_result *result, FILE *out)
{
    const struct pst_memory_sums *sums = &result->sums;
    char a[32], b[32], c[32], d[32];

    fprintf(out, "\npeak      %s", pst_format_bytes(a, result->value.peak_bytes));
    if (result->view.capacity_bytes != UINT64_MAX) {
        fprintf(out, " of %s", pst_format_bytes(b, result->view.capacity_bytes));
    }
    fprintf(out, "\n          %s static, %s parked, %s of the active micro-batch\n",
            pst_format_bytes(a, sums->static_bytes), pst_format_bytes(b, sums->parked_bytes),
            pst_format_bytes(c, sums->active_bytes));
    fprintf(out, "period    %s: %s without memory optimizer, %s more",
            pst_format_ns(a, result->value.period_ns), pst_format_ns(b, sums->total_ns),
            pst_format_ns(c, result->value.extra_ns));
    if (sums->total_ns > 0) {
        fprintf(out, " (%.1f %%)", 100.0 * (double)result->value.extra_ns / (double)sums->total_ns);
    }
    fprintf(out, "\ndropped   %s of a micro-batch, %s of replays\n",
            pst_format_bytes(a, sums->dropped_bytes), pst_format_ns(b, sums->replay_ns));
    if (result->view.link_bytes_per_s > 0) {
        fprintf(out, "offloaded %s of a micro-batch; the host link is busy for %s\n",
                pst_format_bytes(a, sums->offloaded_bytes), pst_format_ns(d, sums->link_ns));
    }
    fprintf(out, "search    %s by %s %s, %u micro-batch%s in flight\n\n",
            pst_format_ns(a, (uint64_t)(result->search_seconds * 1e9)), result->id, result->version,
            result->view.in_flight, result->view.in_flight == 1 ? "" : "es");
}

/* --- memory of the stage over one forward and one backward pass, drawn with characters ---------*/

#define CHART_COLUMNS 64
#define CHART_ROWS    10

struct chart {
    uint64_t most[CHART_COLUMNS]; /* bytes; the largest of what falls into the column */
    char pass[CHART_COLUMNS];     /* F, R (a replay) or B of that */
    uint64_t top;                 /* bytes of the uppermost row */
};

/* Width of an event: the time that it takes, at least a little, so that all are seen. */
static double width_of(const struct pst_memory_event *event, double least)
{
    return (double)event->ns > least ? (double)event->ns : least;
}

static void fill_chart(struct chart *chart, const struct pst_memory_event *events, uint32_t n)
{
    double all = 0, least, at = 0;

    for (uint32_t i = 0; i < n; i++) {
        all += (double)events[i].ns;
    }
    least = all > 0 ? all / (4.0 * CHART_COLUMNS + n) : 1.0;
    all = 0;
    for (uint32_t i = 0; i < n; i++) {
        all += width_of(&events[i], least);
    }
    for (uint32_t i = 0; i < n; i++) {
        double end = at + width_of(&events[i], least);
        uint32_t from = (uint32_t)(at / all * CHART_COLUMNS),
                 to = (uint32_t)(end / all * CHART_COLUMNS);

        for (uint32_t c = from; c < CHART_COLUMNS && (c < to || c == from); c++) {
            if (events[i].bytes >= chart->most[c]) {
                chart->most[c] = events[i].bytes;
                chart->pass[c] = "FRB"[events[i].pass];
            }
        }
        chart->top = events[i].bytes > chart->top ? events[i].bytes : chart->top;
        at = end;
    }
}

static void print_chart_row(const struct chart *chart, uint32_t row, uint64_t capacity, FILE *out)
{
    double step = (double)chart->top / CHART_ROWS, low = step * (row - 1), high = step * row;
    bool limit = (double)capacity > low && (double)capacity <= high;
    char text[32], line[CHART_COLUMNS + 1];

    for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
        /* A column reaches the row where it fills at least half of it. */
        bool filled = (double)chart->most[c] >= low + step / 2;

        line[c] = filled ? (chart->pass[c] == 'R' ? 'r' : '#') : limit ? '-' : ' ';
    }
    line[CHART_COLUMNS] = '\0';
    fprintf(out, "%12s |%s%s\n",
            row == CHART_ROWS || row == CHART_ROWS / 2 ? pst_format_bytes(text, (uint64_t)high)
                                                       : "",
            line, limit ? " capacity" : "");
}

/* Events in order of time, each as wide as the time that it takes; the y-axis begins at 0, a row of
   dashes is the capacity, where it is on the chart (UINT64_MAX: none). */
static void print_chart(const struct pst_memory_event *events, uint32_t n_events,
                        uint64_t capacity_bytes, FILE *out)
{
    struct chart chart = {.top = 0};
    uint32_t turn = CHART_COLUMNS;

    if (n_events == 0) {
        return;
    }
    fill_chart(&chart, events, n_events);
    for (uint32_t row = CHART_ROWS; row > 0; row--) {
        print_chart_row(&chart, row, capacity_bytes, out);
    }
    for (uint32_t c = CHART_COLUMNS; c-- > 0;) {
        turn = chart.pass[c] == 'F' ? turn : c;
    }
    fprintf(out, "%12s +", "");
    for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
        fputc(c == turn ? '+' : '-', out);
    }
    fprintf(out, "\n%14s%-*s%s\n", "", (int)turn, turn >= 8 ? "forward" : "",
            "backward (r: replays)");
}

void pst_memopt_report_print(const struct pst_memopt_result *result, bool color, FILE *out)
{
    uint32_t *times = pst_alloc((size_t)result->view.n_nodes + 1, sizeof *times);

    count_replays(result, times);
    print_nodes(result, times, color, out);
    print_replays(result, out);
    print_sums(result, out);
    print_chart(result->events, result->n_events, result->view.capacity_bytes, out);
    free(times);
}

/* --- for tools ---------------------------------------------------------------------------------*/

static const char *name_of(const struct pst_memopt_result *result, uint32_t v)
{
    const struct pst_costed_node *nodes = result->stage.problem->graph->nodes;

    return nodes[pst_stage_node_at(&result->view, v)->node].name;
}

/* The operator at a place: of an action, or that a replay names. */
static void put_place(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    pst_json_string(json, row->key,
                    name_of(of->at[PST_ROW_OUTER], *(const uint32_t *)pst_row_value(row, of)));
}

static const struct pst_row action_rows[] = {
    {"tensor", "the operator's name", PST_ROW_TEXT, .base = PST_ROW_INDEX, .json = put_place},
    {"action", "`keep`, `recompute` or `offload`", PST_ROW_WORD, .word = action_name},
    PST_ROWS_END,
};

#define OF_REPLAY(kind, member)                                                                    \
    PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_replay, member), .type = "text", .json = put_place
static const struct pst_row replay_rows[] = {
    {"before", "the operator whose backward comes next", OF_REPLAY(COUNT, before)},
    {"first", "of those that run again", OF_REPLAY(COUNT, first)},
    {"last", "of those that run again", OF_REPLAY(COUNT, last)},
    PST_ROWS_END,
};

#define OF_RESULT(kind, member) PST_ROW_AT(kind, 0, struct pst_memopt_result, member)
#define EACH(list, n)           PST_ROW_EACH(0, struct pst_memopt_result, list, n)
const struct pst_row pst_memopt_rows[] = {
    {"memopt", "its id", OF_RESULT(NAME, id)},
    {"fits", "`false`: there is `error` instead of what follows", PST_ROW_FLAG, .base = 1},
    {"extra_us", "longer than without memory optimizer", OF_RESULT(NS, value.extra_ns)},
    {"peak_bytes", NULL, OF_RESULT(BYTES, value.peak_bytes)},
    {"actions", "one per operator", PST_ROW_OBJECT, EACH(actions, view.n_nodes),
     .rows = action_rows},
    {"sequence", "replays in their order; absent if none are listed", PST_ROW_OBJECT,
     EACH(replays.at, replays.n), .rows = replay_rows,
     PST_ROW_UNLESS(IF_ZERO, 0, struct pst_memopt_result, replays.n)},
    {"period_us", "passes of a micro-batch, with replays and waits",
     OF_RESULT(NS, value.period_ns)},
    {"recompute_us", "replays", OF_RESULT(NS, sums.replay_ns)},
    {"link_us", "the host link is busy", OF_RESULT(NS, sums.link_ns)},
    {"in_flight", "micro-batches", OF_RESULT(COUNT, view.in_flight)},
    {"static_bytes", NULL, OF_RESULT(BYTES, sums.static_bytes)},
    {"parked_bytes", "micro-batches in flight beside the active one",
     OF_RESULT(BYTES, sums.parked_bytes)},
    {"active_bytes", "the active micro-batch", OF_RESULT(BYTES, sums.active_bytes)},
    {"recomputed_bytes", "of one micro-batch", OF_RESULT(BYTES, sums.dropped_bytes)},
    {"offloaded_bytes", "of one micro-batch", OF_RESULT(BYTES, sums.offloaded_bytes)},
    {"search_seconds", "time of the optimizer", OF_RESULT(REAL, search_seconds)},
    PST_ROWS_END,
};

void pst_memopt_report_json(const struct pst_memopt_result *result, struct pst_json *json)
{
    const bool fits = true;

    pst_rows_json(json, pst_memopt_rows, PST_ROW_OF(result, &fits));
}
