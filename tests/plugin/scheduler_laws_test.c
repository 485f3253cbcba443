/* SPDX-License-Identifier: Apache-2.0
 *
 * Random instances for every scheduler of the plugin folder, with the placements that its options
 * give: 1..9 devices, up to 3p micro-batches, chains and graphs, whole costs of every stage and
 * link, caps. Times and peaks against a plain sweep over the lists, claims against times, bounds,
 * caps, scaling, one device without idle time, more room never worse, the order through CSV and
 * back.
 */
#include "schedule_rig.h"

#include <unistd.h>

#include "base/philox.h"

enum { MAX_VARIANTS = 96, ROUNDS = 8 };

struct variant {
    char id[64];
    const char *options;
};

static struct variant variants[MAX_VARIANTS];
static uint32_t n_variants;

static const struct variant more[] = {
    {"optimal", "max_nodes=20000"},
    {"optimal", "placement=vshape,max_nodes=20000"},
    {"optimal", "placement=looped,max_nodes=20000"},
    {"optimal", "placement=looped,chunks=3,objective=span,max_nodes=20000"},
    {"optimal", "placement=vshape,objective=span,max_nodes=20000"},
    {"v-adaptive", "effort=0"},
    {"interleaved", "chunks=3,split=true"},
    {"interleaved-zb", "chunks=3"},
    {"looped-bfs", "chunks=3"},
    {"group-interleaved", "group=1,chunks=3"},
    {"hanayo", "waves=2,window=3"},
    {"gpipe", "reverse=true,split=true"},
    {"seq1f1b", "slices=2,split=true"},
    {"1f1b", "eager=true,split=true"},
    {"v-min", "variant=\"improved\""},
    {"v-half", "variant=\"improved\""},
};

/* What searches long gets small instances, what answers one file none. */
static uint32_t most_devices(const struct variant *v)
{
    bool slow = strcmp(v->id, "v-adaptive") == 0 && v->options == NULL;

    return strcmp(v->id, "csv") == 0 ? 0 : slow || strcmp(v->id, "optimal") == 0 ? 3 : 9;
}

static bool heeds_caps(const struct variant *v)
{
    static const char *const ids[] = {"zb-auto", "v-zb", "v-adaptive", "optimal"};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (strcmp(v->id, ids[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int find_variants(void **state)
{
    char ids[MAX_VARIANTS][64];
    uint32_t n = schedule_ids(ids, MAX_VARIANTS);

    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(ids[i], "optimal") != 0) {
            memcpy(variants[n_variants++].id, ids[i], sizeof ids[i]);
        }
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0] && n_variants < MAX_VARIANTS; i++) {
        variants[n_variants++] = more[i];
    }
    return n_variants > sizeof more / sizeof more[0] ? 0 : -1;
}

/* --- an instance -------------------------------------------------------------------------------*/

struct instance {
    uint64_t seed, factor, cap; /* cap in passes held; 0: none */
    bool equal_bytes, graph;
};

/* Every third pair of stages is linked, where there are copies of those of one. */
static void draw_graph(struct pst_order_question *asked, uint64_t seed)
{
    static struct pst_schedule_link links[SCHEDULE_DEVICES * SCHEDULE_DEVICES];
    uint32_t n = 0, n_copy = asked->in.n_stages / pst_topology_copies(&asked->topology);

    assert_true(asked->in.n_stages <= SCHEDULE_DEVICES);
    for (uint32_t to = 0; to < asked->in.n_stages; to++) {
        for (uint32_t from = 0; from < to; from++) {
            struct pst_philox r = pst_philox(seed, 3, to * SCHEDULE_DEVICES + from);

            if (r.v[0] % 3 == 0 && from / n_copy == to / n_copy) {
                links[n++] = (struct pst_schedule_link){.from = from, .to = to};
            }
        }
    }
    schedule_connect(asked, links, n);
}

static void draw_instance(struct pst_order_question *asked, void *context)
{
    const struct instance *x = context;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_philox r = pst_philox(x->seed, 1, s);
        struct pst_schedule_stage *stage = &asked->stages[s];

        stage->forward_ns = (1 + r.v[0] % 9) * x->factor;
        stage->backward_input_ns = (1 + r.v[1] % 9) * x->factor;
        stage->backward_weight_ns = (1 + r.v[2] % 9) * x->factor;
        stage->saved_bytes = x->equal_bytes ? 6 : 2 + r.v[3] % 5;
        stage->saved_weight_bytes =
            x->equal_bytes ? stage->saved_bytes : r.v[3] / 7 % (stage->saved_bytes + 1);
    }
    if (x->graph) {
        draw_graph(asked, x->seed);
    }
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        struct pst_schedule_link *link = &asked->links[i];

        if (asked->stages[link->from].device != asked->stages[link->to].device) {
            link->transfer_ns = pst_philox(x->seed, 2, i).v[0] % 4 * x->factor;
        }
    }
    for (uint32_t d = 0; d < asked->in.n_devices; d++) {
        asked->activation_bytes[d] = x->cap == 0 ? UINT64_MAX : 6 * x->cap;
    }
}

static struct schedule_run ask(const struct variant *v, uint32_t p, uint32_t m, bool barrier,
                               struct instance *x)
{
    return SCHEDULE(v->id, .options = v->options, .p = p, .m = m, .barrier = barrier,
                    .may_fail = true, .change = draw_instance, .context = x);
}

/* --- a plain sweep -----------------------------------------------------------------------------*/

struct sweep {
    const struct schedule_run *run;
    uint64_t *done[5]; /* [PST_PASS_*][stage * m + micro-batch]: end + 1; 0: not yet */
    uint64_t clock[SCHEDULE_DEVICES], first[SCHEDULE_DEVICES];
    uint32_t m;
};

static uint64_t end_of_backward(const struct sweep *x, uint32_t stage, uint32_t j)
{
    uint64_t b = x->done[PST_PASS_B][stage * x->m + j];

    return b > 0 ? b : x->done[PST_PASS_BW][stage * x->m + j];
}

/* When what a pass needs is there; false: not yet. */
static bool needs_met(const struct sweep *x, const struct pst_pass *pass, uint64_t *ret_when)
{
    const struct pst_schedule_in *in = &x->run->stream.in;
    uint64_t own = pass->op == PST_PASS_F ? 1
                   : pass->op == PST_PASS_W
                       ? x->done[PST_PASS_B][pass->stage * x->m + pass->microbatch]
                       : x->done[PST_PASS_F][pass->stage * x->m + pass->microbatch];

    *ret_when = own > 0 ? own - 1 : 0;
    for (uint32_t i = 0; i < in->n_links && own > 0; i++) {
        const struct pst_schedule_link *link = pst_schedule_link_at(in, i);
        bool forward = pass->op == PST_PASS_F && link->to == pass->stage;
        bool backward =
            (pass->op == PST_PASS_B || pass->op == PST_PASS_BW) && link->from == pass->stage;
        uint64_t end;

        if (!forward && !backward) {
            continue;
        }
        end = forward ? x->done[PST_PASS_F][link->from * x->m + pass->microbatch]
                      : end_of_backward(x, link->to, pass->microbatch);
        own = end > 0 ? own : 0;
        end += link->transfer_ns - 1;
        *ret_when = end > *ret_when ? end : *ret_when;
    }
    return own > 0;
}

static void run_sweep(struct sweep *x)
{
    const struct schedule_run *run = x->run;
    uint32_t at[SCHEDULE_DEVICES] = {0};
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t d = 0; d < run->stream.in.n_devices; d++) {
            while (at[d] < run->stream.n_passes[d]) {
                const struct pst_pass *pass = &run->stream.passes[d][at[d]];
                uint64_t when;

                if (!needs_met(x, pass, &when)) {
                    break;
                }
                when = when > x->clock[d] ? when : x->clock[d];
                x->first[d] = at[d] == 0 ? when : x->first[d];
                x->clock[d] =
                    when +
                    schedule_cost(pst_schedule_stage_at(&run->stream.in, pass->stage), pass->op);
                x->done[pass->op][pass->stage * x->m + pass->microbatch] = x->clock[d] + 1;
                at[d]++;
                moved = true;
            }
        }
    }
    for (uint32_t d = 0; d < run->stream.in.n_devices; d++) {
        assert_int_equal(at[d], run->stream.n_passes[d]);
    }
}

/* Most bytes over the prefixes of a device's list. */
static uint64_t peak_of(const struct schedule_run *run, uint32_t d)
{
    uint64_t held = 0, most = 0;

    for (uint32_t i = 0; i < run->stream.n_passes[d]; i++) {
        const struct pst_pass *pass = &run->stream.passes[d][i];
        const struct pst_schedule_stage *stage =
            pst_schedule_stage_at(&run->stream.in, pass->stage);
        uint64_t weight = stage->saved_weight_bytes, all = stage->saved_bytes;

        held += pass->op == PST_PASS_F ? all : 0;
        most = most > held ? most : held;
        held -= pass->op == PST_PASS_B    ? all - weight
                : pass->op == PST_PASS_W  ? weight
                : pass->op == PST_PASS_BW ? all
                                          : 0;
    }
    return most;
}

static void check_times(const struct schedule_run *run)
{
    struct sweep x = {.run = run,
                      .m = run->stream.in.n_stages > 0
                               ? pst_schedule_stage_at(&run->stream.in, 0)->n_microbatches
                               : 0};
    uint64_t makespan = 0, span = 0;

    for (uint32_t op = 0; op < 5; op++) {
        x.done[op] = calloc((size_t)run->n_stages * x.m + 1, sizeof *x.done[op]);
        assert_non_null(x.done[op]);
    }
    run_sweep(&x);
    for (uint32_t d = 0; d < run->stream.in.n_devices; d++) {
        makespan = x.clock[d] > makespan ? x.clock[d] : makespan;
        span = x.clock[d] - x.first[d] > span ? x.clock[d] - x.first[d] : span;
        assert_int_equal(run->eval.peak_bytes[d], peak_of(run, d));
    }
    assert_int_equal(run->makespan_ns, makespan);
    assert_int_equal(run->span_ns, span);
    for (uint32_t op = 0; op < 5; op++) {
        free(x.done[op]);
    }
}

/* --- the laws ----------------------------------------------------------------------------------*/

static void check_claim(const struct schedule_run *run)
{
    const struct pst_claimed *claim = &run->answer.claim;

    if (run->answer.claim.size == 0) {
        return;
    }
    if (claim->makespan_ns != 0) {
        assert_int_equal(claim->makespan_ns, run->makespan_ns);
    }
    if (claim->span_ns != 0) {
        assert_int_equal(claim->span_ns, run->span_ns);
    }
    assert_true(claim->lower_bound_ns <= (claim->minimised == 1 ? run->makespan_ns : run->span_ns));
}

static void check_answer(const struct variant *v, const struct schedule_run *run, uint32_t p)
{
    bool within = true;

    check_times(run);
    check_claim(run);
    for (uint32_t d = 0; d < p; d++) {
        within = within && run->eval.peak_bytes[d] <= run->asked.activation_bytes[d];
    }
    assert_true(within || !heeds_caps(v));
    if (within) { /* the bounds take the caps for granted */
        assert_true(run->makespan_ns >= run->bounds.makespan_ns);
        assert_true(run->span_ns >= run->bounds.span_ns);
    }
    if (p == 1) {
        assert_int_equal(run->makespan_ns, run->eval.work_ns);
        assert_int_equal(run->eval.n_transfers, 0);
    }
}

static void check_refusal(const struct variant *v, const struct schedule_run *run)
{
    if (run->status != PST_ERR_INFEASIBLE && run->status != PST_ERR_UNSUPPORTED) {
        fail_msg("%s: %s: %s", v->id, run->error.kind, run->error.message);
    }
}

/* Written to a file and read by the scheduler that takes such files. */
static void check_csv(const struct schedule_run *run, uint32_t p, uint32_t m, struct instance *x)
{
    char path[] = "/tmp/penstock-laws-XXXXXX", options[64];
    struct variant csv = {.id = "csv", .options = options};
    OWN_RUN back;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, run->csv, strlen(run->csv)), strlen(run->csv));
    close(fd);
    snprintf(options, sizeof options, "file=\"%s\"", path);
    back = ask(&csv, p, m, false, x);
    unlink(path);
    assert_ok(back.status, &back.error);
    assert_string_equal(back.csv, run->csv);
    assert_int_equal(back.makespan_ns, run->makespan_ns);
}

static bool check_instance(const struct variant *v, uint64_t seed, uint32_t p, uint32_t m)
{
    struct pst_philox r = pst_philox(seed, 0, 0);
    bool capped = r.v[2] % 2 == 0, barrier = r.v[2] / 2 % 2 == 0;
    struct instance x = {seed, 1, capped ? 2 + r.v[3] % (2 * p + 1) : 0, r.v[2] / 4 % 2 == 0,
                         seed % 2 == 1};
    struct instance scaled = x;
    struct schedule_run run, slow;
    bool answered;

    scaled.factor = 2 + r.v[2] / 8 % 8;
    run = ask(v, p, m, barrier, &x);
    slow = ask(v, p, m, barrier, &scaled);
    answered = run.status == PST_OK;
    assert_int_equal(slow.status, run.status);
    if (!answered) {
        check_refusal(v, &run);
    } else {
        check_answer(v, &run, p);
        if (slow.makespan_ns != scaled.factor * run.makespan_ns ||
            slow.span_ns != scaled.factor * run.span_ns) {
            fail_msg("%s %s seed %lu p %u m %u: %lu, costs times %lu: %lu", v->id,
                     v->options == NULL ? "" : v->options, (unsigned long)seed, p, m,
                     (unsigned long)run.makespan_ns, (unsigned long)scaled.factor,
                     (unsigned long)slow.makespan_ns);
        }
        if (!run.answer.asynchronous && !x.graph && /* such files are of chains */
            pst_topology_copies(&run.asked.topology) == 1) {
            check_csv(&run, p, m, &x);
        }
    }
    schedule_run_free(&run);
    schedule_run_free(&slow);
    return answered;
}

static bool check_random(const struct variant *v, uint64_t seed)
{
    struct pst_philox r = pst_philox(seed, 0, 0);
    uint32_t p = 1 + r.v[0] % most_devices(v);

    return check_instance(v, seed, p, 1 + r.v[1] % (3 * p));
}

/* Micro-batches that are few, as many as devices, or whole rounds of them, more or less one. */
static uint32_t check_corners(const struct variant *v, uint64_t seed)
{
    uint32_t answered = 0;

    for (uint32_t p = 1; p <= most_devices(v); p++) {
        const uint32_t sizes[] = {1, 2, 3, p - 1, p, p + 1, 2 * p - 1, 2 * p, 3 * p};

        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            if (sizes[k] > 0 && (k <= 2 || sizes[k] > 3)) {
                answered += check_instance(v, seed + p * 100 + k, p, sizes[k]);
            }
        }
    }
    return answered;
}

TEST(corners)
{
    for (uint32_t i = 0; i < n_variants; i++) {
        bool has_options = variants[i].options != NULL;

        assert_true(has_options || most_devices(&variants[i]) == 0 ||
                    check_corners(&variants[i], 20260) > 0);
    }
}

TEST(random_instances)
{
    const uint64_t first = 7000;

    for (uint32_t i = 0; i < n_variants; i++) {
        uint32_t answered = 0;

        for (uint64_t k = 0; k < ROUNDS && most_devices(&variants[i]) > 0; k++) {
            answered += check_random(&variants[i], first + 100 * i + k);
        }
        print_message("%-18s %-50s %u of %u answered\n", variants[i].id,
                      variants[i].options == NULL ? "" : variants[i].options, answered, ROUNDS);
        assert_true(most_devices(&variants[i]) == 0 || answered > 0);
    }
}

/* Those that heed their caps, at unequal costs, with links, chunk by chunk. */
TEST(more_room_is_never_worse)
{
    for (uint32_t i = 0; i < n_variants; i++) {
        const struct variant *v = &variants[i];

        for (uint64_t seed = 1; heeds_caps(v) && seed <= 4; seed++) {
            uint32_t p = 2 + seed % 3 % (most_devices(v) - 1), m = p + seed % 4;
            struct instance x = {seed, 1, 0, true, seed % 2 == 1};
            bool barrier = seed % 2 == 0;
            uint64_t before = UINT64_MAX;

            m = strcmp(v->id, "optimal") == 0 && m > 4 ? 4 : m;
            for (x.cap = 1; x.cap <= 2 * (uint64_t)p + 2; x.cap++) {
                OWN_RUN run = ask(v, p, m, barrier, &x);
                const struct pst_claimed *claim = &run.answer.claim;
                bool span = run.answer.claim.size != 0 ? claim->minimised == 2 : !barrier;
                uint64_t cost = span ? run.span_ns : run.makespan_ns;

                if (run.status == PST_OK) {
                    /* cut off, the exact search promises a bound only */
                    bool open = strcmp(v->id, "optimal") == 0 && claim->lower_bound_ns < cost;

                    if (cost > before && !open) {
                        fail_msg(
                            "%s %s seed %lu p %u m %u: room for %lu costs %lu, for one less %lu",
                            v->id, v->options == NULL ? "" : v->options, (unsigned long)seed, p, m,
                            (unsigned long)x.cap, (unsigned long)cost, (unsigned long)before);
                    }
                    before = open && before < cost ? before : cost;
                } else {
                    check_refusal(v, &run);
                    assert_true(before == UINT64_MAX);
                }
            }
        }
    }
}

/* At equal costs and the same work: half and a third of the memory, in whole micro-batches of a
   device, no more time; without a bubble at the same memory. 1f1b holds 2p chunks. */
TEST(v_shapes_against_1f1b)
{
    for (uint32_t p = 2; p <= 16; p++) {
        uint32_t m = 2 * p + p % 3;
        OWN_RUN one = SCHEDULE("1f1b", .p = p, .m = m, .f = 2, .b = 2, .w = 2);
        OWN_RUN half = SCHEDULE("v-half", .p = p, .m = m);
        OWN_RUN third = SCHEDULE("v-min", .p = p, .m = m);
        OWN_RUN zero = SCHEDULE("v-zb", .p = p, .m = m);

        assert_int_equal(most_held(&one), p);
        assert_true(most_held(&half) <= 2 * ((p + 2) / 2) && half.span <= one.span);
        assert_true(most_held(&third) <= 2 * ((p + 4) / 3) && third.span <= one.span);
        assert_true(most_held(&zero) <= 2 * p && zero.span == zero.work);
    }
}

TEST_GROUP(find_variants, NULL)
