/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator under every scheduler and memory optimizer of the tree: where transfers are free
 * it agrees with the plain evaluation of the order, and its memory peaks with the plan.
 */
#include "schedule_rig.h"

#include "job_rig.h"
#include "sim/sim.h"

#define P 4
#define M 8

/* --- a chain of K linear operators a stage, everything one launch of 1 us --------------------- */

#define K 25

struct chain {
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_plan *plan;
};

static void must(pst_status st, const struct pst_error *err)
{
    assert_ok(st, err);
}

static void build_graph(struct chain *chain, uint32_t n)
{
    const uint64_t dims[2] = {2, 2};
    struct pst_graph_builder *b = NULL;
    struct pst_error err = {0};
    char name[32];
    must(pst_graph_builder_create("chain", PST_F32, &b, &err), &err);
    uint32_t x = pst_graph_input(b, "x", PST_FIELD_X, PST_F32, 1, dims);
    uint32_t target = pst_graph_input(b, "target", PST_FIELD_TARGET, PST_I32, 0, dims);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "w%u", i);
        uint32_t w = pst_graph_param(b, name, 2, dims, PST_INIT_NORMAL, 1, false);
        snprintf(name, sizeof name, "linear%u", i);
        pst_graph_layer(b, i);
        x = pst_graph_add(b, &(struct pst_op){.kind = PST_OP_LINEAR,
                                              .name = name,
                                              .n_in = 1,
                                              .in = &x,
                                              .n_param = 1,
                                              .param = &w,
                                              .act = PST_ACT_RELU});
    }
    const uint32_t in[2] = {x, target};
    uint32_t loss = pst_graph_add(
        b, &(struct pst_op){.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in});
    must(pst_graph_finish(b, loss, x, &chain->graph, &err), &err);
    pst_graph_builder_destroy(b);
}

/* The stages of a run, whose copies are replicas of them; links cost nothing. */
static void cut_chain(struct chain *chain, const struct schedule_run *run)
{
    uint32_t copies = pst_topology_copies(&run->asked.topology), n_stages = run->n_stages / copies;
    uint32_t n = n_stages * K + 1, *nodes = calloc(n, sizeof *nodes);
    struct pst_error err = {0};
    *chain = (struct chain){.cluster = {.launch_overhead = 1000}};
    build_graph(chain, n - 1);
    chain->cost = (struct pst_cost_model){.graph = chain->graph, .cluster = &chain->cluster};
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(chain->graph, M, P, &chain->plan);
    chain->plan->copies = copies;
    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t ranks[2] = {0}, size = s + 1 == n_stages ? K + 1 : K;
        for (uint32_t c = 0; c < copies; c++) {
            ranks[c] = pst_schedule_stage_at(&run->stream.in, c * n_stages + s)->device;
        }
        pst_plan_add_stage(chain->plan, nodes + (size_t)s * K, size, ranks, copies, copies, 1);
    }
    free(nodes);
    must(pst_plan_connect(chain->plan, chain->graph, &err), &err);
}

/* The order of a run into the plan, where a pass of a copy is one of its stage. */
static void lower_chain(struct chain *chain, struct schedule_run *run)
{
    struct pst_error err = {0};
    for (uint32_t d = 0; d < P; d++) {
        for (uint32_t i = 0; i < run->stream.n_passes[d]; i++) {
            run->stream.passes[d][i].stage %= chain->plan->n_stages;
        }
    }
    must(pst_plan_lower(chain->plan, chain->graph, &chain->cost,
                        (const struct pst_pass *const *)run->stream.passes, run->stream.n_passes,
                        true, &err),
         &err);
}

static void open_chain(struct chain *chain, struct schedule_run *run)
{
    cut_chain(chain, run);
    lower_chain(chain, run);
}

static void close_chain(struct chain *chain)
{
    pst_plan_destroy(chain->plan);
    pst_graph_destroy(chain->graph);
}

/* The order, with what the stages really take: the last has the loss as well. */
static void evaluate(const struct chain *chain, struct schedule_run *run,
                     struct pst_order_eval *eval)
{
    struct pst_schedule_stage stages[16];
    struct pst_schedule_in in = run->stream.in;
    struct pst_error err = {0};
    assert_in_range(in.n_stages, 1, 16);
    for (uint32_t s = 0; s < in.n_stages; s++) {
        const struct pst_plan_stage *stage = &chain->plan->stages[s % chain->plan->n_stages];
        struct pst_times times;
        pst_cost_ops(&chain->cost, stage->nodes, stage->n_nodes, 1, &times);
        stages[s] = *pst_schedule_stage_at(&in, s);
        stages[s].forward_ns = times.forward_ns;
        stages[s].backward_input_ns = times.backward_input_ns;
        stages[s].backward_weight_ns = times.backward_weight_ns;
    }
    in.stages = stages;
    in.stage_size = sizeof *stages;
    must(pst_order_evaluate(&in, (const struct pst_pass *const *)run->stream.passes,
                            run->stream.n_passes, eval, &err),
         &err);
}

static void same_times(const struct chain *chain, const struct schedule_run *run,
                       const struct pst_order_eval *eval, const char *id)
{
    uint64_t *start[P], *end[P], makespan;
    struct pst_error err = {0};
    for (uint32_t d = 0; d < P; d++) {
        start[d] = calloc(chain->plan->devices[d].n_instrs, sizeof **start);
        end[d] = calloc(chain->plan->devices[d].n_instrs, sizeof **end);
    }
    must(pst_sim_run(chain->plan, chain->graph, &chain->cost, start, end, &makespan, &err), &err);
    for (uint32_t d = 0; d < P; d++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < chain->plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &chain->plan->devices[d].body[i];
            if (instr->op > PST_I_R) {
                continue;
            }
            const struct pst_pass *pass = &run->stream.passes[d][k];
            assert_true(instr->op == pass->op && instr->stage == pass->stage &&
                        instr->microbatch == pass->microbatch);
            if (start[d][i] != eval->start_ns[d][k] || end[d][i] != eval->end_ns[d][k]) {
                fail_msg("%s: device %u, pass %u: %llu to %llu, evaluated %llu to %llu", id, d, k,
                         (unsigned long long)start[d][i], (unsigned long long)end[d][i],
                         (unsigned long long)eval->start_ns[d][k],
                         (unsigned long long)eval->end_ns[d][k]);
            }
            k++;
        }
        assert_int_equal(k, run->stream.n_passes[d]);
        free(start[d]);
        free(end[d]);
    }
}

/* Calls a function with every scheduler of the tree that answers p = 4, m = 8 in one step. */
static uint32_t each_scheduler(void (*use)(const char *id, void *context), void *context)
{
    struct pst_plugin_list *list = NULL;
    struct pst_error err = {0};
    uint32_t n = 0;
    must(pst_plugin_list_create(NULL, &list, &err), &err);
    for (uint32_t i = 0; i < list->n_files; i++) {
        /* csv wants a file */
        if (strcmp(list->files[i].kind, "scheduler") == 0 &&
            strcmp(list->files[i].id, "csv") != 0) {
            use(list->files[i].id, context);
            n++;
        }
    }
    pst_plugin_list_destroy(list);
    return n;
}

static void agree(const char *id, void *context)
{
    struct schedule_run run = SCHEDULE(id, .p = P, .m = M, .may_fail = true);
    uint32_t *n = context;
    struct chain chain;
    struct pst_order_eval eval;
    if (run.status != PST_OK || run.answer.asynchronous || run.n_stages > 16) {
        print_message("%s: %s\n", id, run.status == PST_OK ? "not here" : run.error.message);
        schedule_run_free(&run);
        return;
    }
    cut_chain(&chain, &run);
    evaluate(&chain, &run, &eval);
    lower_chain(&chain, &run);
    same_times(&chain, &run, &eval, id);
    pst_order_eval_finish(&eval);
    close_chain(&chain);
    schedule_run_free(&run);
    ++*n;
}

TEST(free_transfers)
{
    uint32_t n = 0;
    each_scheduler(agree, &n);
    assert_true(n >= 6);
}

/* --- with and without a barrier ----------------------------------------------------------------*/

/* The lists without NORM: an update waits for the gradients of its own stage alone. */
static void strip_norm(struct chain *chain)
{
    for (uint32_t d = 0; d < P; d++) {
        struct pst_plan_device *device = &chain->plan->devices[d];
        struct pst_instr *list =
            pst_arena_array(&chain->plan->arena, device->n_instrs, sizeof *list);
        uint32_t n = 0, *reduced = pst_arena_array(&chain->plan->arena, 16, sizeof *reduced);
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            struct pst_instr instr = device->body[i];
            if (instr.op == PST_I_NORM) {
                continue;
            }
            if (instr.op == PST_I_REDUCE) {
                reduced[instr.stage] = n;
            } else if (instr.op == PST_I_STEP) {
                instr.n_waits = 1;
                instr.waits = &reduced[instr.stage];
            }
            list[n++] = instr;
        }
        device->body = list;
        device->n_instrs = n;
    }
}

/*
 * In unit costs a step of 1F1B takes (m + p - 1) 3 = 33 units with a barrier or without, one of
 * ZB-H2 33 - 6 = 27 with and 3 m = 24 without (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR
 * 2024: H2 has no bubble but for the parallelogram's skew of (p - 1) F). A unit is K launches, the
 * loss adds one to F and B of the last stage, an update is one a stage: hence the bounds.
 */
static void expect_units(const char *id, uint64_t barrier, uint64_t free_running)
{
    OWN_RUN run = SCHEDULE(id, .p = P, .m = M);
    struct pst_sim_result result;
    struct pst_error err = {0};
    struct chain chain;
    open_chain(&chain, &run);
    must(pst_sim_steps(chain.plan, chain.graph, &chain.cost, 3, &result, &err), &err);
    assert_in_range(result.period_ns, barrier * K * 1000, barrier * (K + 1) * 1000 + 1000 * K);
    /* no more than an update of a rank goes on beside the next step */
    assert_in_range(result.total_ns, 3 * result.period_ns, 3 * result.period_ns + 1000 * K);
    strip_norm(&chain);
    must(pst_sim_steps(chain.plan, chain.graph, &chain.cost, 3, &result, &err), &err);
    assert_in_range(result.period_ns, free_running * K * 1000,
                    free_running * (K + 1) * 1000 + 1000 * K);
    assert_in_range(result.period_ns, result.work_ns, result.span_ns);
    close_chain(&chain);
}

TEST(periods)
{
    expect_units("1f1b", 33, 33);
    expect_units("zb-h2", 27, 24);
}

/* --- asynchronous plans ------------------------------------------------------------------------*/

/* A chain whose lists are the parts of an asynchronous answer, without NORM. */
static void open_parts(struct chain *chain, const struct schedule_run *run)
{
    const struct pst_pass *const *passes[PST_PARTS];
    const uint32_t *n_passes[PST_PARTS];
    struct pst_error err = {0};
    cut_chain(chain, run);
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        passes[part] = (const struct pst_pass *const *)run->answer.passes[part];
        n_passes[part] = run->answer.n_passes[part];
    }
    chain->plan->version_rule = PST_VERSION_DELAYED;
    chain->plan->asynchronous = true;
    must(pst_plan_lower_parts(chain->plan, chain->graph, &chain->cost, passes, n_passes, &err),
         &err);
}

/* A batch has all its forwards and one update on every rank, whatever part they stand in. */
static void expect_batches(const struct pst_timeline *timeline, uint32_t steps)
{
    uint32_t n_f[8][P] = {{0}}, n_step[8][P] = {{0}};
    assert_int_equal(timeline->n_steps, steps);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];
        assert_in_range(span->step, 0, steps - 1);
        if (span->op == PST_I_F) {
            assert_in_range(span->microbatch, 0, M - 1);
            n_f[span->step][span->stage]++;
        }
        n_step[span->step][span->rank] += span->op == PST_I_STEP;
    }
    for (uint32_t t = 0; t < steps; t++) {
        for (uint32_t d = 0; d < P; d++) {
            assert_int_equal(n_f[t][d], M);
            assert_int_equal(n_step[t][d], 1);
        }
    }
}

/*
 * 1F1B that never drains: p - 1 F until the first micro-batch is at the end, p - 1 BW until the
 * last is back, and in between 3 units a micro-batch: 3 m a batch, 3 (n m + p - 1) in all
 * (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021).
 */
TEST(asynchronous)
{
    const uint32_t steps = 3;
    OWN_RUN run = SCHEDULE("2bw", .p = P, .m = M);
    struct pst_timeline *timeline = NULL;
    struct pst_sim_result result;
    struct pst_error err = {0};
    struct chain chain;
    assert_true(run.answer.asynchronous);
    open_parts(&chain, &run);
    must(pst_sim_timeline(chain.plan, chain.graph, &chain.cost, steps, 0, NULL, &timeline, &result,
                          &err),
         &err);
    assert_in_range(result.period_ns, 3 * M * K * 1000, 3 * M * (K + 1) * 1000 + 1000 * K);
    assert_in_range(result.total_ns, 3 * (steps * M + P - 1) * K * 1000,
                    3 * (steps * M + P - 1) * (K + 1) * 1000 + steps * 1000 * K);
    expect_batches(timeline, steps);
    for (uint32_t d = 0; d < P; d++) {
        assert_null(timeline->ranks[d].points);
    }
    pst_timeline_destroy(timeline);
    close_chain(&chain);
}

/*
 * Drained every D batches a stretch takes 3 (D m + p - 1), the next one follows at its heels, and
 * one step costs a D-th of it; the last stretch may be shorter.
 */
TEST(drains)
{
    static const uint32_t every[] = {1, 2, 3, 8, 31, 40, 1000};
    OWN_RUN run = SCHEDULE("2bw", .p = P, .m = M);
    struct pst_timeline *timeline = NULL;
    struct pst_sim_result result;
    struct pst_error err = {0};
    struct chain chain;
    open_parts(&chain, &run);
    for (uint32_t i = 0; i < sizeof every / sizeof *every; i++) {
        uint32_t d = every[i], n = 5, whole = n / d, rest = n % d;
        uint64_t stretch = 3 * (d * M + P - 1);
        uint64_t units = whole * stretch + (rest > 0 ? 3 * (rest * M + P - 1) : 0);
        chain.plan->drain_every = d;
        must(pst_sim_timeline(chain.plan, chain.graph, &chain.cost, n, 0, NULL, &timeline, &result,
                              &err),
             &err);
        expect_batches(timeline, n);
        pst_timeline_destroy(timeline);
        assert_in_range(result.period_ns, stretch * K * 1000 / d,
                        stretch * (K + 1) * 1000 / d + 1000 * K);
        assert_in_range(result.total_ns, units * K * 1000, units * (K + 1) * 1000 + n * 1000 * K);
    }
    close_chain(&chain);
}

/* --- memory ------------------------------------------------------------------------------------*/

static const char *const memopts[] = {"none", "full"};

static void peaks(const char *id, void *context)
{
    uint32_t *n = context;
    for (uint32_t k = 0; k < sizeof memopts / sizeof *memopts; k++) {
        struct pst_planned planned = {.plan = NULL};
        struct pst_timeline *timeline = NULL;
        struct pst_sim_result result;
        struct pst_error err = {0};
        struct job_rig rig;
        char toml[1024];
        snprintf(toml, sizeof toml,
                 "[model]\nuse = \"gpt\"\nlayers = 8\ndim = 16\nheads = 2\ncontext = 4\n"
                 "vocab = 7\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 2\n"
                 "[cluster]\ndevices = 4\n[partitioner]\nuse = \"uniform\"\n[scheduler]\n"
                 "use = \"%s\"\n[[memopt]]\nuse = \"%s\"\n",
                 id, memopts[k]);
        if (job_rig_plan(&rig, toml, &planned) != PST_OK) {
            print_message("%s, %s: %s\n", id, memopts[k], rig.err.message);
            assert_true(strcmp(rig.err.kind, "plan.mismatch") == 0 ||
                        strcmp(rig.err.kind, "plan.infeasible") == 0 ||
                        strcmp(rig.err.kind, "plan.unsupported") == 0);
            job_rig_finish(&rig);
            continue;
        }
        must(pst_sim_timeline(planned.plan, rig.graph, &rig.cost, 2, 0,
                              (const struct pst_program *const *)planned.programs, &timeline,
                              &result, &err),
             &err);
        for (uint32_t d = 0; d < planned.plan->n_devices && !planned.plan->asynchronous; d++) {
            assert_int_equal(timeline->ranks[d].peak_bytes, planned.plan->devices[d].peak_bytes);
        }
        pst_timeline_destroy(timeline);
        pst_planned_finish(&planned);
        job_rig_finish(&rig);
        ++*n;
    }
}

TEST(memory_to_the_byte)
{
    uint32_t n = 0;
    each_scheduler(peaks, &n);
    assert_true(n >= 12);
}
