/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage that offloads, in the steady state of 1F1B, against a model of it that is written out as
 * a simulation of events: one stream of kernels, a queue to the host and one back; for every tensor
 * a place on its way out (from its forward kernel until it is on the host) and one on its way back
 * (until its own backward has ended). While the link has time to spare, the period between two
 * micro-batches is the larger of the kernels' time, replays included, and the bytes' time on the
 * link: directions x bytes / bandwidth.
 */
#include <inttypes.h>

#include "plan/pass_calls.h"
#include "sim/sim.h"

#include "unit/prove/rig.h"

enum { MICROS = 24, AHEAD = 3, MOST_NODES = 64, MOST_CALLS = 256, SAMPLES = 2 };

struct stage {
    struct rig rig;
    uint32_t n;
    struct pst_arena arena;
    struct pst_pass_calls passes[PST_I_BW + 1];
    uint64_t ns[PST_I_BW + 1][MOST_CALLS];
    uint64_t copy_ns[MOST_NODES]; /* 0: it stays */
    uint32_t order[MOST_NODES];   /* what is moved, as BW reads it */
    uint32_t n_moved;
    bool shared;
};

/* --- the model: events ------------------------------------------------------------------------ */

struct link {
    uint32_t queue[2 * MICROS * MOST_NODES][3]; /* direction, micro-batch, node */
    uint32_t head, n;
    bool busy;
    uint64_t until;
};

struct model {
    const struct stage *stage;
    uint64_t now;
    uint32_t pass, call; /* position in the list of passes; its call */
    bool running;
    uint64_t until;
    struct link links[2];
    bool made[MICROS][MOST_NODES], out[MICROS][MOST_NODES], in[MICROS][MOST_NODES],
        gone[MICROS][MOST_NODES];
    uint64_t end[MICROS]; /* of BW */
};

/* F of so many ahead, then BW and F in turn. */
static void pass_at(uint32_t at, uint32_t *ret_op, uint32_t *ret_micro)
{
    if (at < AHEAD) {
        *ret_op = PST_I_F;
        *ret_micro = at;
    } else if (at < 2 * MICROS - AHEAD) {
        *ret_op = (at - AHEAD) % 2 == 0 ? PST_I_BW : PST_I_F;
        *ret_micro = (at - AHEAD) / 2 + (*ret_op == PST_I_F ? AHEAD : 0);
    } else {
        *ret_op = PST_I_BW;
        *ret_micro = at - MICROS;
    }
}

static bool kernel_may_begin(const struct model *m, uint32_t op, uint32_t j)
{
    const struct stage *s = m->stage;

    if (op == PST_I_F) {
        return s->copy_ns[m->call] == 0 || j == 0 || m->out[j - 1][m->call];
    }
    for (uint32_t v = 0; v < s->n; v++) {
        if (s->copy_ns[v] > 0 && s->passes[op].first_read[v] == m->call && !m->in[j][v]) {
            return false;
        }
    }
    return true;
}

static bool copy_may_begin(const struct model *m, const uint32_t *copy)
{
    uint32_t j = copy[1], v = copy[2];

    return copy[0] == 0 ? m->made[j][v] : m->out[j][v] && (j == 0 || m->gone[j - 1][v]);
}

static void enqueue(struct model *m, uint32_t direction, uint32_t j, uint32_t v)
{
    struct link *link = &m->links[m->stage->shared ? 0 : direction];
    uint32_t *row = link->queue[link->n++];

    row[0] = direction;
    row[1] = j;
    row[2] = v;
}

/* What the beginning of a pass puts into the queues. */
static void enter_pass(struct model *m, uint32_t op, uint32_t j)
{
    const struct stage *s = m->stage;

    for (uint32_t v = 0; op == PST_I_F && v < s->n; v++) {
        if (s->copy_ns[v] > 0) {
            enqueue(m, 0, j, v);
        }
    }
    /* those back of the next micro-batch: with the backward pass of this one, of the first with the
       last F before its backward */
    if (op == PST_I_BW ? j + 1 < MICROS : j + 1 == AHEAD) {
        for (uint32_t i = 0; i < s->n_moved; i++) {
            enqueue(m, 1, op == PST_I_BW ? j + 1 : 0, s->order[i]);
        }
    }
}

static void end_kernel(struct model *m, uint32_t op, uint32_t j)
{
    const struct pst_pass_calls *pass = &m->stage->passes[op];

    m->call++;
    for (uint32_t v = 0; v < m->stage->n; v++) {
        if (pass->behind[v] == m->call) {
            (op == PST_I_F ? m->made : m->gone)[j][v] = true;
        }
    }
    if (m->call == pass->n_calls) {
        m->end[j] = m->now;
        m->call = 0;
        m->pass++;
    }
}

/* Ends what ends now and begins what may; false: nothing happened. */
static bool react(struct model *m)
{
    bool any = false;
    uint32_t op, j;

    for (uint32_t l = 0; l < 2; l++) {
        struct link *link = &m->links[l];

        if (link->busy && link->until == m->now) {
            const uint32_t *row = link->queue[link->head++];

            (row[0] == 0 ? m->out : m->in)[row[1]][row[2]] = true;
            link->busy = false;
            any = true;
        }
        if (!link->busy && link->head < link->n && copy_may_begin(m, link->queue[link->head])) {
            link->busy = any = true;
            link->until = m->now + m->stage->copy_ns[link->queue[link->head][2]];
        }
    }
    if (m->pass == 2 * MICROS) {
        return any;
    }
    pass_at(m->pass, &op, &j);
    if (m->running && m->until == m->now) {
        m->running = false;
        end_kernel(m, op, j);
        if (m->call == 0 && m->pass < 2 * MICROS) {
            pass_at(m->pass, &op, &j);
            enter_pass(m, op, j);
        }
        return true;
    }
    if (!m->running && kernel_may_begin(m, op, j)) {
        m->running = any = true;
        m->until = m->now + m->stage->ns[op][m->call];
    }
    return any;
}

static void run_model(const struct stage *stage, struct model *m)
{
    memset(m, 0, sizeof *m);
    m->stage = stage;
    enter_pass(m, PST_I_F, 0);
    for (;;) {
        uint64_t next = UINT64_MAX;

        while (react(m)) {
        }
        if (m->pass == 2 * MICROS) {
            return;
        }
        next = m->running ? m->until : next;
        for (uint32_t l = 0; l < 2; l++) {
            next = m->links[l].busy && m->links[l].until < next ? m->links[l].until : next;
        }
        assert_true(next != UINT64_MAX);
        m->now = next;
    }
}

/* --- the list --------------------------------------------------------------------------------- */

struct list {
    struct pst_instr instrs[2 * MICROS * (1 + 2 * MOST_NODES)];
    uint32_t waits[2 * MICROS * (1 + 2 * MOST_NODES) * 3], n_waits;
    uint32_t out[MICROS][MOST_NODES], in[MICROS][MOST_NODES]; /* positions */
    uint32_t n, backward[MICROS];
};

static void add(struct list *list, struct pst_instr instr)
{
    instr.waits = &list->waits[list->n_waits];
    list->instrs[list->n++] = instr;
}

static void wait_for(struct list *list, uint32_t position)
{
    list->waits[list->n_waits++] = position;
    list->instrs[list->n - 1].n_waits++;
}

static void add_back(const struct stage *s, struct list *list, uint32_t j)
{
    for (uint32_t i = 0; i < s->n_moved; i++) {
        uint32_t v = s->order[i];

        list->in[j][v] = list->n;
        add(list, (struct pst_instr){
                      .op = PST_I_FETCH, .microbatch = j, .node = s->rig.plan->stages[0].nodes[v]});
        wait_for(list, list->out[j][v]);
        if (j > 0) {
            wait_for(list, list->backward[j - 1]);
        }
    }
}

static void make_list(const struct stage *s, struct list *list)
{
    memset(list, 0, sizeof *list);
    for (uint32_t at = 0; at < 2 * MICROS; at++) {
        uint32_t op, j, here = list->n;

        pass_at(at, &op, &j);
        add(list, (struct pst_instr){.op = (uint8_t)op, .microbatch = j});
        if (op == PST_I_BW) {
            list->backward[j] = here;
        }
        for (uint32_t v = 0; v < s->n; v++) {
            if (s->copy_ns[v] > 0 && (op == PST_I_BW || j > 0)) {
                wait_for(list, op == PST_I_BW ? list->in[j][v] : list->out[j - 1][v]);
            }
        }
        for (uint32_t v = 0; op == PST_I_F && v < s->n; v++) {
            if (s->copy_ns[v] > 0) {
                list->out[j][v] = list->n;
                add(list, (struct pst_instr){.op = PST_I_OFFLOAD,
                                             .microbatch = j,
                                             .node = s->rig.plan->stages[0].nodes[v]});
                wait_for(list, here);
            }
        }
        if (op == PST_I_BW ? j + 1 < MICROS : j + 1 == AHEAD) {
            add_back(s, list, op == PST_I_BW ? j + 1 : 0);
        }
    }
}

/* --- the stage -------------------------------------------------------------------------------- */

static int as_read(const void *a, const void *b, void *context)
{
    const struct pst_pass_calls *pass = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (pass->first_read[x] != pass->first_read[y]) {
        return pass->first_read[x] < pass->first_read[y] ? -1 : 1;
    }
    return x < y ? 1 : -1;
}

static void time_calls(struct stage *s, uint32_t op)
{
    const struct pst_pass_calls *pass = &s->passes[op];

    assert_true(pass->n_calls <= MOST_CALLS);
    for (uint32_t c = 0; c < pass->n_calls; c++) {
        struct pst_times times;

        pst_cost_op(&s->rig.cost, s->rig.plan->stages[0].nodes[pass->calls[c].node], SAMPLES,
                    &times);
        s->ns[op][c] = pass->calls[c].pass == 0   ? times.forward_ns
                       : pass->calls[c].pass == 1 ? times.backward_input_ns
                                                  : times.backward_weight_ns;
    }
}

/* Bytes are those of a tensor that a backward kernel reads, so found by hand: nothing in this model
   is read by other stages. */
static void draw_actions(struct stage *s, bool replays)
{
    uint8_t *actions = (uint8_t *)s->rig.plan->stages[0].actions;

    for (uint32_t v = 0; v < s->n; v++) {
        uint32_t letter = rig_draw(&s->rig, 3);

        actions[v] = letter == 0              ? PST_ACTION_KEEP
                     : letter == 1 && replays ? PST_ACTION_RECOMPUTE
                                              : PST_ACTION_OFFLOAD;
    }
}

static void open_stage(struct stage *s, uint64_t seed, bool replays)
{
    const uint32_t rank = 0;
    struct pst_error err = {0};
    uint32_t nodes[MOST_NODES];

    memset(s, 0, sizeof *s);
    rig_open(&s->rig, "gpt", "layers=2 dim=16 heads=2 context=8 vocab=11", seed);
    s->n = s->rig.graph->n_ops;
    assert_true(s->n <= MOST_NODES);
    for (uint32_t v = 0; v < s->n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(s->rig.graph, MICROS * SAMPLES, 1, &s->rig.plan);
    pst_plan_add_stage(s->rig.plan, nodes, s->n, &rank, 1, SAMPLES, 1);
    assert_ok(pst_plan_connect(s->rig.plan, s->rig.graph, &err), &err);
    draw_actions(s, replays);
    pst_pass_calls_init(&s->rig.plan->stages[0], s->rig.graph, &s->arena, s->passes);
    time_calls(s, PST_I_F);
    time_calls(s, PST_I_BW);
}

static void close_stage(struct stage *s)
{
    pst_arena_finish(&s->arena);
    rig_close(&s->rig);
}

/* Time of the kernels of one micro-batch. */
static uint64_t kernels_ns(const struct stage *s)
{
    uint64_t sum = 0;

    for (uint32_t c = 0; c < s->passes[PST_I_F].n_calls; c++) {
        sum += s->ns[PST_I_F][c];
    }
    for (uint32_t c = 0; c < s->passes[PST_I_BW].n_calls; c++) {
        sum += s->ns[PST_I_BW][c];
    }
    return sum;
}

/* A link that is busy for `load` percent of the kernels' time. */
static void set_link(struct stage *s, bool shared, uint64_t load)
{
    uint64_t bytes[MOST_NODES], sum = 0, kernels = kernels_ns(s);

    pst_plan_offload_bytes(&s->rig.plan->stages[0], s->rig.graph, bytes);
    for (uint32_t v = 0; v < s->n; v++) {
        sum += bytes[v];
    }
    s->shared = shared;
    s->rig.cluster.link_directions = shared ? 2 : 1;
    s->rig.cluster.host_bandwidth =
        sum * (shared ? 2 : 1) * 1000000000u / (kernels * load / 100) + 1;
    s->n_moved = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        s->copy_ns[v] = pst_cost_host_ns(&s->rig.cost, bytes[v]);
        if (s->copy_ns[v] > 0) {
            s->order[s->n_moved++] = v;
        }
    }
    qsort_r(s->order, s->n_moved, sizeof *s->order, as_read, &s->passes[PST_I_BW]);
}

/* Both; the period, and what the formula makes of it. */
static void compare(struct stage *s, uint64_t *ret_period, uint64_t *ret_formula)
{
    static struct model model;
    static struct list list;
    static uint64_t start_of[sizeof list.instrs / sizeof *list.instrs],
        end_of[sizeof list.instrs / sizeof *list.instrs];
    uint64_t *start[] = {start_of}, *end[] = {end_of}, makespan, link = 0, kernels = kernels_ns(s);
    struct pst_error err = {0};

    run_model(s, &model);
    make_list(s, &list);
    s->rig.plan->devices[0].body = list.instrs;
    s->rig.plan->devices[0].n_instrs = list.n;
    assert_ok(pst_sim_run(s->rig.plan, s->rig.graph, &s->rig.cost, start, end, &makespan, &err),
              &err);
    for (uint32_t j = 0; j < MICROS; j++) {
        assert_int_equal(end_of[list.backward[j]], model.end[j]);
    }
    for (uint32_t v = 0; v < s->n; v++) {
        link += s->copy_ns[v] * (s->shared ? 2 : 1);
    }
    *ret_formula = kernels > link ? kernels : link;
    *ret_period =
        (model.end[MICROS - AHEAD - 2] - model.end[MICROS / 2]) / (MICROS - AHEAD - 2 - MICROS / 2);
}

TEST(as_the_model)
{
    static const uint64_t loads[] = {20, 40, 60, 90, 130};
    static struct stage s;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        open_stage(&s, seed, seed % 2 == 0);
        for (uint32_t i = 0; i < 10; i++) {
            uint64_t load = loads[i / 2], period, formula;

            set_link(&s, i % 2 == 1, load);
            compare(&s, &period, &formula);
            print_message("seed %u, load %u %%, %s: period %" PRIu64 ", formula %" PRIu64 "\n",
                          (unsigned)seed, (unsigned)load, s.shared ? "one link" : "two links",
                          period, formula);
            assert_true(period >= formula - 1);
            if (load <= 90) {
                assert_int_equal(period, formula);
            }
        }
        close_stage(&s);
    }
}
