/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of unlike numbers of parts: random plans of groups and the plans of ranks that come of
 * them are proven and timed, and so are their twins; each of a list of faults in who sends to whom
 * is refused by name, and so are mutants of their programs. PENSTOCK_SEED: another seed.
 */
#include "prove/internal.h"
#include "unit/prove/async_rig.h"
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/legal_rig.h"
#include "unit/prove/memory_mutations.h"
#include "unit/prove/parts_rig.h"

enum { MOST_STAGES = 16 };

#define UNTIED GPT " tied=false"

static struct pst_check_report report;

/* Degrees of 1, 2 and 4, not all alike, on no more ranks than a rig has. ties: those of the first
   and the last device are equal. */
static void draw_degrees(struct rig *rig, uint32_t n_devices, bool ties, uint32_t *ret_degrees)
{
    bool alike = true;

    while (alike) {
        for (uint32_t d = 0; d < n_devices; d++) {
            ret_degrees[d] = 1u << rig_draw(rig, 3);
        }
        ret_degrees[n_devices - 1] = ties ? ret_degrees[0] : ret_degrees[n_devices - 1];
        for (uint32_t d = 0; d < n_devices; d++) {
            alike &= ret_degrees[d] == ret_degrees[0];
        }
    }
}

struct drawn {
    struct rig rig;
    struct rig_shape shape;
    uint32_t degrees[MOST_STAGES], ends[MOST_STAGES];
};

struct model {
    const char *name, *settings;
    bool ties, sequence;
    bool plain; /* nothing on the host, and all of the gradients on each replica */
};

/* The first plan of groups that there is, from this seed on. */
static void open_drawn(struct drawn *d, const struct model *model, uint64_t *io_seed)
{
    uint32_t n_ranks;

    do {
        struct rig drawing = {.seed = (*io_seed)++};

        n_ranks = RIG_MAX + 1;
        d->shape = rig_draw_shape(&drawing);
        d->shape.two_way = false;
        d->shape.offload = !model->plain && !d->shape.recompute && rig_draw(&drawing, 2) == 0;
        d->shape.zero = d->shape.replicas ? rig_draw(&drawing, model->plain ? 2 : 4) : 0;
        d->shape.prefetch = d->shape.zero >= 2 ? rig_draw(&drawing, 2) : 0;
        d->shape.no_barrier = rig_draw(&drawing, 3) == 0;
        if (d->shape.devices == 1 || (model->ties && d->shape.devices < 3)) {
            continue;
        }
        draw_degrees(&drawing, d->shape.devices, model->ties, d->degrees);
        if (!open_degrees(&d->rig, model->name, model->settings, model->sequence, &d->shape,
                          d->degrees, d->ends, drawing.seed)) {
            continue;
        }
        rig_plan(&d->rig, &d->shape);
        n_ranks = 0;
        for (uint32_t s = 0; s < d->shape.devices; s++) {
            n_ranks += d->rig.plan->stages[s].n_ranks * d->degrees[s];
        }
        if (n_ranks > RIG_MAX) {
            rig_close(&d->rig);
        }
    } while (n_ranks > RIG_MAX);
}

static void close_drawn(struct drawn *d)
{
    rig_close(&d->rig);
}

static uint64_t first_seed(uint64_t usual)
{
    const char *other = getenv("PENSTOCK_SEED");

    return other != NULL ? strtoull(other, NULL, 10) : usual;
}

/* --- legal -------------------------------------------------------------------------------------*/

/* Returns true if a part makes what it sends nobody: fewer receivers than senders. */
static bool has_silent_parts(const struct pst_plan *plan)
{
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        if (plan->stages[plan->edges[e].from].tensor > plan->stages[plan->edges[e].to].tensor) {
            return true;
        }
    }
    return false;
}

static void check_model(const char *model, const char *settings, bool ties, bool sequence,
                        uint32_t n)
{
    const struct model of = {model, settings, ties, sequence, false};
    uint64_t seed = first_seed(500);
    uint32_t n_silent = 0;

    for (uint32_t i = 0; i < n; i++) {
        FINISHED_BY(close_drawn) struct drawn d;

        open_drawn(&d, &of, &seed);
        expect_legal(&d.rig, "groups");
        expand(&d.rig);
        n_silent += has_silent_parts(d.rig.plan);
        expect_legal(&d.rig, "ranks");
        assert_true(simulate(&d.rig) > 0);
        check_twin(&d.rig, 2 * d.shape.batch);
    }
    assert_true(n_silent > n / 4);
}

TEST(gpt)
{
    check_model("gpt", UNTIED, false, false, 60);
    check_model("gpt", UNTIED " dropout=0.1", false, false, 20);
}

TEST(ties)
{
    check_model("gpt", GPT, true, false, 30);
}

TEST(llama)
{
    check_model("llama", LLAMA, false, false, 30);
}

TEST(others)
{
    check_model("mlp", "inputs=12 hidden=16 layers=8 classes=4", false, false, 30);
    check_model("bert", "layers=2 dim=16 heads=4 context=8 vocab=11", true, false, 12);
    check_model("t5", "layers=1 dim=16 heads=4 head_dim=8 ff=24 context=8 vocab=11", true, false,
                12);
}

TEST(rows)
{
    check_model("gpt", UNTIED, false, true, 30);
    check_model("llama", LLAMA, false, true, 12);
}

/* Batches that overlap. */
TEST(asynchronous)
{
    uint64_t seed = first_seed(700);

    for (uint32_t n = 0; n < 30; seed++) {
        FINISHED_BY(rig_close) struct rig rig = {0};
        struct rig drawing = {.seed = seed};
        struct async_shape shape = async_draw_shape(&drawing, (uint32_t)seed);
        struct rig_shape cut = {.devices = shape.p, .chunks = 1};
        uint32_t degrees[MOST_STAGES], ends[MOST_STAGES], n_ranks = 0;

        shape.zero = shape.replicas && rig_draw(&drawing, 2) == 0;
        shape.offload = rig_draw(&drawing, 2) == 0;
        draw_degrees(&drawing, shape.p, false, degrees);
        if (!open_degrees(&rig, "gpt", UNTIED, seed % 2 == 0, &cut, degrees, ends, seed)) {
            rig.graph = NULL;
            continue;
        }
        shape.ends = ends;
        if (!async_plan(&rig, &shape)) {
            continue;
        }
        for (uint32_t s = 0; s < shape.p; s++) {
            n_ranks += rig.plan->stages[s].n_ranks * degrees[s];
        }
        if (n_ranks > RIG_MAX) {
            continue;
        }
        rig_programs(&rig);
        expect_legal(&rig, "groups");
        expand(&rig);
        expect_legal(&rig, "ranks");
        n++;
    }
}

/* --- who sends to whom -------------------------------------------------------------------------*/

/* Two stages, the first of `from` parts and the second of `to`. */
static void open_pair(struct rig *rig, uint32_t from, uint32_t to, bool programs)
{
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    const uint32_t degrees[] = {from, to};
    uint32_t ends[2];
    uint64_t seed = 9;

    while (!open_degrees(rig, "gpt", UNTIED, false, &shape, degrees, ends, seed)) {
        seed++;
    }
    rig_plan(rig, &shape);
    expand(rig);
    if (programs) {
        expect_legal(rig, "pair");
    }
}

static struct pst_instr *find_end(struct rig *rig, uint32_t rank, uint8_t op, uint8_t payload)
{
    const struct pst_plan_device *device = &rig->plan->devices[rank];

    for (uint32_t i = 0; i < device->n_instrs; i++) {
        if (device->body[i].op == op && device->body[i].payload == payload) {
            return (struct pst_instr *)&device->body[i];
        }
    }
    fail_msg("rank %u has no such end", rank);
    return NULL;
}

/* Part 1 sends in the place of part 0, to the same receiver; both ends say so. */
static void send_from_next(struct rig *rig)
{
    struct pst_instr *send = find_end(rig, 0, PST_I_SEND, PST_PAYLOAD_ACT);

    find_end(rig, send->peer, PST_I_RECV, PST_PAYLOAD_ACT)->peer = 1;
    find_end(rig, 1, PST_I_SEND, PST_PAYLOAD_ACT)->peer = send->peer;
}

static void grad_from_next(struct rig *rig)
{
    find_end(rig, 0, PST_I_RECV, PST_PAYLOAD_GRAD)->peer++;
}

/* The instruction stays as another transfer's end, so that no number changes. */
static void send_is_missing(struct rig *rig)
{
    struct pst_instr *send = find_end(rig, 0, PST_I_SEND, PST_PAYLOAD_ACT);

    send->peer = send[1].peer;
}

static void two_on_one_send(struct rig *rig)
{
    const struct pst_instr *send = find_end(rig, 0, PST_I_SEND, PST_PAYLOAD_ACT);

    find_end(rig, send->peer + 2, PST_I_RECV, PST_PAYLOAD_ACT)->peer = 0;
}

/* Receivers change places: each still gets what it asks for, from the wrong end of the maker. */
static void crossed_ends(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        struct pst_instr *list = (struct pst_instr *)rig->plan->devices[d].body;

        for (uint32_t i = 0; i < rig->plan->devices[d].n_instrs; i++) {
            if (list[i].op == PST_I_RECV && list[i].payload == PST_PAYLOAD_ACT) {
                list[i].peer = 1 - list[i].peer;
            } else if (list[i].op == PST_I_SEND && list[i].payload == PST_PAYLOAD_ACT) {
                list[i].peer = 2 + (list[i].peer - 2 + 2) % 4;
            }
        }
    }
}

static void other_order(struct rig *rig)
{
    struct pst_instr *list = (struct pst_instr *)rig->plan->devices[1].body;

    for (uint32_t i = 0; i < rig->plan->devices[1].n_instrs; i++) {
        if (list[i].op == PST_I_F) {
            list[i].microbatch = 1 - list[i].microbatch;
        }
    }
}

static void tensor_of_other(struct rig *rig)
{
    rig->plan->stages[1].tensor = rig->plan->stages[0].tensor;
}

/* Two parts of one stage are two replicas of the next. */
static void replicas_of_parts(struct rig *rig)
{
    struct pst_plan_stage *stage = &rig->plan->stages[1];

    stage->ranks = rig->plan->stages[0].ranks;
    stage->n_ranks = 2;
}

static void parts_apart(struct rig *rig)
{
    uint32_t *ranks = (uint32_t *)rig->plan->stages[1].ranks;

    ranks[1] = 4;
    ranks[2] = 3;
}

static bool is_of_edge(const struct pst_plan_edge *edge, uint32_t tensor)
{
    uint32_t i = 0;

    while (i < edge->n_tensors && edge->tensors[i] != tensor) {
        i++;
    }
    return i < edge->n_tensors;
}

/* A part does not keep for a SEND what it sends nobody. */
TEST(silent_parts_keep_nothing)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint64_t ticks[4] = {0}; /* for which what goes to the other stage is kept */

    open_pair(&rig, 4, 1, true);
    for (uint32_t d = 0; d < 4; d++) {
        for (uint32_t v = 0; v < rig.programs[d]->n_values; v++) {
            const struct pst_value *value = &rig.programs[d]->values[v];

            if (value->kind == PST_V_ACT && is_of_edge(&rig.plan->edges[0], value->what)) {
                ticks[d] += value->last - value->first;
            }
        }
        assert_true(d == 0 || ticks[d] < ticks[0]);
        assert_true(d == 0 || rig.programs[d]->peak_bytes <= rig.programs[0]->peak_bytes);
    }
}

static const struct fault {
    const char *name, *rule;
    uint32_t from, to;
    void (*apply)(struct rig *rig);
} faults[] = {
    {"SEND from the next part", "COMM1", 2, 4, send_from_next},
    {"gradient from the next part", "COMM1", 2, 4, grad_from_next},
    {"gradient from the next part", "COMM1", 1, 4, grad_from_next},
    {"one of several SENDs is missing", "COMM1", 1, 4, send_is_missing},
    {"one of several SENDs is missing", "COMM1", 2, 4, send_is_missing},
    {"two receivers on one SEND", "COMM1", 2, 4, two_on_one_send},
    {"ends that cross", "COMM1", 2, 4, crossed_ends},
    {"lists of parts in other orders", "COMM4", 2, 4, other_order},
    {"lists of silent parts in other orders", "COMM4", 4, 1, other_order},
    {"the degree of another stage", "FORM1", 2, 4, tensor_of_other},
    {"the degree of another stage", "FORM1", 4, 2, tensor_of_other},
    {"parts that are replicas of another stage", "FORM1", 2, 1, replicas_of_parts},
    {"parts that are not in a row", "FORM1", 2, 4, parts_apart},
};

TEST(faults_of_plans)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        FINISHED_BY(rig_close) struct rig rig;
        struct pst_error err = {0};

        open_pair(&rig, faults[i].from, faults[i].to, true);
        faults[i].apply(&rig);
        if (rig_check(&rig, false, &report, &err) == PST_OK ||
            !rig_has_rule(&report, faults[i].rule)) {
            fail_msg("%s: expected %s, found %s", faults[i].name, faults[i].rule,
                     err.status == PST_OK ? "nothing" : err.message);
        }
    }
}

/* --- mutants of programs -----------------------------------------------------------------------*/

static bool sends(const struct pst_plan_device *device, const struct pst_instr *send)
{
    bool found = false;

    for (uint32_t i = 0; i < device->n_instrs && !found; i++) {
        const struct pst_instr *own = &device->body[i];

        found = own->op == PST_I_SEND && own->stage == send->stage &&
                own->payload == send->payload && own->first_sample == send->first_sample;
    }
    return found;
}

/* Returns true if the rank sends all that the first part of its group does, as that one does. What
   others make for nobody may be wrong. */
static bool sends_all(const struct pst_plan *plan, uint32_t rank)
{
    uint32_t group_of[RIG_MAX], first = rank;
    bool all = true;

    pst_plan_groups(plan, group_of);
    while (first > 0 && group_of[first - 1] == group_of[rank]) {
        first--;
    }
    for (uint32_t i = 0; i < plan->devices[first].n_instrs; i++) {
        const struct pst_instr *instr = &plan->devices[first].body[i];

        all &= instr->op != PST_I_SEND || sends(&plan->devices[rank], instr);
    }
    return all;
}

static void mutate(struct rig *rig, struct memory_mutation *mutations, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++) {
        const uint32_t rank = rig_draw(rig, rig->plan->n_devices);

        if (sends_all(rig->plan, rank)) {
            me_mutate(rig, rank, &mutations[k], name);
        }
    }
}

TEST(mutants_of_programs)
{
    uint64_t seed = first_seed(900);
    uint32_t n = 0;

    for (uint32_t i = 0; i < 60; i++) {
        FINISHED_BY(close_drawn) struct drawn d;
        char name[64];

        open_drawn(&d, &(struct model){"gpt", UNTIED " vocab=600", false, i % 2 == 1, true}, &seed);
        expand(&d.rig);
        snprintf(name, sizeof name, "plan %u", i);
        expect_legal(&d.rig, "%s", name);
        mutate(&d.rig, memory_mutations, N_MEMORY_MUTATIONS, name);
        mutate(&d.rig, buffer_mutations, N_BUFFER_MUTATIONS, name);
    }
    for (uint32_t k = 0; k < N_MEMORY_MUTATIONS; k++) {
        n += memory_mutations[k].counts[0];
    }
    me_print(memory_mutations, N_MEMORY_MUTATIONS);
    assert_true(n > 300);
}

/* --- waits of one part -------------------------------------------------------------------------*/

/* The list of a rank without one of its waits, or with all. w: PST_NONE: with all. */
static bool legal_without(struct rig *rig, uint32_t rank, uint32_t i, uint32_t w)
{
    struct pst_instr *instr = (struct pst_instr *)&rig->plan->devices[rank].body[i];
    const struct pst_instr kept = *instr;
    uint32_t *waits = calloc(kept.n_waits, sizeof *waits), n = 0;
    struct pst_error err = {0};
    bool legal;

    for (uint32_t k = 0; k < kept.n_waits; k++) {
        waits[n] = kept.waits[k];
        n += k != w;
    }
    instr->waits = waits;
    instr->n_waits = n;
    legal = rig_check(rig, false, &report, &err) == PST_OK;
    *instr = kept;
    free(waits);
    return legal;
}

/* Parts of equal degrees have the lists of their groups. A wait that a group cannot do without, no
   part of it can, although the others have it; one that it can, each part can. */
TEST(waits_of_one_part)
{
    static bool group_legal[RIG_MAX][512][16];
    FINISHED_BY(rig_close) struct rig rig;
    uint32_t n_needed = 0, n_needless = 0;

    open_parts(&rig, "gpt", GPT, 2, false, 41);
    for (uint32_t i = 0; i < 12; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);

        shape.devices = shape.devices % 2 + 1;
        shape.two_way = false;
        shape.batch = 4;
        shape.microbatch = 2;
        rig_plan(&rig, &shape);
        for (uint32_t pass = 0; pass < 2; pass++) {
            for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
                for (uint32_t at = 0; at < rig.plan->devices[d].n_instrs; at++) {
                    for (uint32_t w = 0; w < rig.plan->devices[d].body[at].n_waits; w++) {
                        const bool legal = legal_without(&rig, d, at, w);

                        assert_true(at < 512 && w < 16);
                        if (pass == 0) {
                            group_legal[d][at][w] = legal;
                        } else if (legal != group_legal[d / 2][at][w]) {
                            fail_msg("plan %u, rank %u at %u, wait %u: %s", i, d, at, w,
                                     legal ? "legal" : "illegal");
                        }
                        n_needed += !legal;
                        n_needless += legal;
                    }
                }
            }
            if (pass == 0) {
                expand(&rig);
            }
        }
        rig_drop_plan(&rig);
    }
    assert_true(n_needed > 200 && n_needless > 50);
}
