/* SPDX-License-Identifier: Apache-2.0
 *
 * Rehearsals with copies, and with sums over replicas inside passes: executor and simulator are two
 * programs with the same rules, so every instruction begins and ends at the same time on the clock
 * of the devices as in the simulation, but for the rounding of rows.
 */
#include "exec/record.h"
#include "loop/run_timeline.h"
#include "sim/durations.h"
#include "sim/sim.h"
#include "sim/usage.h"

#include "unit/exec/real.h"

enum { BATCH = 16, ROUNDING_NS = 64 };

/* Replicas come to passes at different times. In the simulation these begin when the last has come;
   a device begins and waits at the first sum, so they end together either way. */
static bool uneven;

static uint64_t kernel_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice)
{
    (void)rank;
    (void)slice;
    struct pst_times times;

    pst_cost_op(context, op, samples, &times);
    return pass == PST_KERNEL_F   ? times.forward_ns
           : pass == PST_KERNEL_B ? times.backward_input_ns
                                  : times.backward_weight_ns;
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    (void)rank;
    const struct pst_cost_model *cost = context;
    uint64_t ns = pst_sim_update_ns(cost, elems * sizeof(float), n_slots);
    uint64_t launch = cost->cluster->launch_overhead;

    return first || ns < launch ? ns : ns - launch;
}

static uint64_t transfer_ns(void *context, uint64_t bytes, uint32_t from, uint32_t to)
{
    return pst_cost_transfer_ns(context, bytes, from, to);
}

static uint64_t meeting_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n)
{
    return pst_cost_ring_ns(context, bytes, n, 1);
}

static uint32_t node(void *context, uint32_t rank)
{
    return 0;
}

static uint64_t host_ns(void *context, uint32_t rank, uint64_t bytes)
{
    (void)rank;
    return pst_cost_host_ns(context, bytes);
}

/* As many batches as may be in flight, so that no device waits for work; then a drain. */
static void run_steps(struct real *real, const struct pst_batch *batch, uint32_t n_steps)
{
    struct pst_update update = {.optimizer = PST_SGD, .step = 1};
    struct pst_step_result result;
    struct pst_error err = {0};

    for (uint32_t t = 0; t < n_steps; t++) {
        MUST(pst_exec_submit(real->exec, batch, &update, &err));
    }
    pst_exec_drain(real->exec);
    for (uint32_t t = 0; t < n_steps; t++) {
        MUST(pst_exec_collect(real->exec, &result, &err));
    }
}

static struct pst_timeline *rehearse(struct real *real, uint32_t n_steps)
{
    struct pst_device_times times = {&real->cost, kernel_ns, update_ns, host_ns};
    struct pst_exec_links links = {&real->cost, transfer_ns, meeting_ns, node, NULL};
    struct pst_exec_config config = {.graph = real->graph,
                                     .plan = real->plan,
                                     .programs = (const struct pst_program *const *)real->programs,
                                     .device = load_device("emulated"),
                                     .device_config = {.threads = 1, .times = &times},
                                     .transport = load_threads(),
                                     .stall_ns = 60000000000u,
                                     .links = &links,
                                     .copies = {.shared_link = real->cluster.link_directions == 2}};
    struct pst_batch batch = {.first_sample = 0};
    struct pst_timeline *timeline;
    struct pst_error err = {0};
    uint64_t peaks[MOST_RANKS];

    config.recorder = pst_recorder_create(real->graph, real->plan, config.programs, n_steps);
    MUST(pst_exec_create(&config, &real->exec, &err));
    memcpy(batch.inputs, real->inputs, sizeof real->inputs);
    run_steps(real, &batch, n_steps);
    MUST(pst_run_timeline(config.recorder, 1, &timeline, &err));
    assert_int_equal(pst_exec_measured_peaks(real->exec, peaks, NULL), PST_OK);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        assert_int_equal(peaks[r], real->programs[r]->arena_bytes);
    }
    pst_recorder_destroy(config.recorder);
    return timeline;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static bool alike(const struct pst_span *a, const struct pst_span *b)
{
    return a->op == b->op && a->stage == b->stage && a->microbatch == b->microbatch &&
           a->step == b->step && a->peer == b->peer && a->payload == b->payload &&
           a->first_sample == b->first_sample && a->bytes == b->bytes;
}

/* The same instruction in the same step; of the same copies of several operators the same in order
   of time. */
static const struct pst_span *find(const struct pst_timeline *timeline,
                                   const struct pst_timeline *expected, const struct pst_span *like)
{
    const struct pst_timeline_rank *row = &timeline->ranks[like->rank];
    uint32_t before = 0;

    for (uint32_t i = expected->ranks[like->rank].first; &expected->spans[i] < like; i++) {
        before += alike(&expected->spans[i], like);
    }
    for (uint32_t i = row->first; i < row->first + row->n_spans; i++) {
        if (alike(&timeline->spans[i], like) && before-- == 0) {
            return &timeline->spans[i];
        }
    }
    fail_msg("rank %u, instruction %u was not recorded", like->rank, like->instr);
    return NULL;
}

static bool is_timed(uint32_t op)
{
    return op <= PST_I_R || op == PST_I_OFFLOAD || op == PST_I_FETCH || op == PST_I_SEND ||
           op == PST_I_RECV;
}

static bool is_like(const struct pst_span *got, const struct pst_span *expected)
{
    const bool weights = expected->op == PST_I_W || expected->op == PST_I_BW;

    /* Uneven replicas wait for different things, so one of them begins a pass early and waits in
       its first meeting. The simulator lets both begin late. A fetch before that meeting is early,
       too. */
    if (uneven && expected->op == PST_I_FETCH && got->end_ns < expected->end_ns) {
        return got->start_ns < expected->start_ns;
    }
    return apart(got->end_ns, expected->end_ns) <= ROUNDING_NS &&
           ((apart(got->start_ns, expected->start_ns) <= ROUNDING_NS &&
             apart(got->stall_ns, expected->stall_ns) <= ROUNDING_NS) ||
            (uneven && weights && got->start_ns < expected->start_ns));
}

/* Every instruction; what differs is said, and where it must not, the test has failed. */
static bool same_times(const struct pst_timeline *simulated, const struct pst_timeline *run,
                       bool must)
{
    for (uint32_t i = 0; i < simulated->n_spans; i++) {
        const struct pst_span *expected = &simulated->spans[i], *got;

        if (!is_timed(expected->op)) {
            continue;
        }
        got = find(run, simulated, expected);
        assert_int_equal(got->bytes, expected->bytes);
        if (is_like(got, expected)) {
            continue;
        }
        print_message("rank %u, instruction %u, %s: %" PRIu64 " to %" PRIu64 ", not %" PRIu64
                      " to %" PRIu64 "\n",
                      got->rank, got->instr, pst_instr_name(got->op), got->start_ns, got->end_ns,
                      expected->start_ns, expected->end_ns);
        assert_false(must);
        return false;
    }
    return true;
}

static bool copies_in(const struct pst_timeline *timeline)
{
    bool any = false;

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        any |= timeline->spans[i].op == PST_I_OFFLOAD || timeline->spans[i].op == PST_I_FETCH;
    }
    return any;
}

/* Returns what passes stood still for. A device that is through before the next batch is handed out
   begins that late; then it is tried again. */
static uint64_t compare(struct real *real)
{
    uint32_t n_steps = real->plan->asynchronous ? PST_EXEC_IN_FLIGHT : 1, tries = 0;
    struct pst_timeline *simulated, *run = NULL;
    struct pst_sim_result result;
    struct pst_error err = {0};
    uint64_t stall = 0;

    MUST(pst_sim_timeline(real->plan, real->graph, &real->cost, n_steps, 0,
                          (const struct pst_program *const *)real->programs, &simulated, &result,
                          &err));
    do {
        pst_timeline_destroy(run);
        pst_exec_destroy(real->exec);
        run = rehearse(real, n_steps);
    } while (!same_times(simulated, run, n_steps == 1 || ++tries == 5));
    for (uint32_t i = 0; i < simulated->n_spans; i++) {
        uint8_t op = simulated->spans[i].op;

        stall += is_timed(op) ? simulated->spans[i].stall_ns : 0;
    }
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        assert_int_equal(simulated->ranks[r].peak_bytes, real->programs[r]->peak_bytes);
    }
    assert_true(copies_in(simulated) == (offloading.seed != 0));
    pst_timeline_destroy(simulated);
    pst_timeline_destroy(run);
    return stall;
}

static uint64_t rehearsal(const struct layout *layout, uint64_t seed, uint64_t bandwidth,
                          int64_t directions)
{
    uint32_t slow = layout->order == ORDER_2BW ? 50 : 1; /* batches are handed out meanwhile */
    struct real real;
    uint64_t stall;

    memset(&real, 0, sizeof real);
    real.cluster = (struct pst_cluster){.devices = MOST_RANKS,
                                        .flops = 1e9 / slow,
                                        .bf16_flops = 1e9 / slow,
                                        .memory_bandwidth = 1000000000 / slow,
                                        .launch_overhead = 700 * slow,
                                        .link_bandwidth = 1000000000 / slow,
                                        .link_latency = 1000 * slow,
                                        .host_bandwidth = bandwidth / slow,
                                        .link_directions = directions};
    real.graph =
        make_model("gpt", "layers=2 dim=16 heads=2 context=8 vocab=11 dropout=0.1", PST_F32);
    real.batch = BATCH;
    real.cost = (struct pst_cost_model){.graph = real.graph, .cluster = &real.cluster};
    real.device_ops = load_device("cpu");
    assert_int_equal(
        real.device_ops->open(&(struct pst_device_config){.threads = 1}, &real.device, NULL),
        PST_OK);
    offloading = (struct offloading){.seed = seed};
    real_plan(&real, layout, 0, true);
    real_data(&real, 5);
    stall = compare(&real);
    real_destroy(&real);
    return stall;
}

TEST(as_simulated)
{
    static const struct layout layouts[] = {
        {.n_stages = 1, .ranks = {0}, .order = ORDER_GPIPE},
        {.n_stages = 2, .ranks = {0, 1}, .order = ORDER_1F1B},
        {.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_SPLIT},
        {.n_stages = 4, .ranks = {0, 1, 0, 1}, .order = ORDER_REVERSE},
        {.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_1F1B},
        {.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_2BW},
        {.n_stages = 4, .ranks = {0, 1, 2, 3}, .order = ORDER_2BW},
    };
    uint64_t fast = 0, slow = 0;

    for (uint32_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        for (int64_t directions = 1; directions <= 2; directions++) {
            print_message("layout %u, %s\n", i, directions == 2 ? "one link" : "two links");
            fast += rehearsal(&layouts[i], i + 1, 4000000000u, directions);
            slow += rehearsal(&layouts[i], i + 1, 100000000u, directions);
        }
    }
    print_message("passes stood still for %" PRIu64 " ns, on slow links for %" PRIu64 " ns\n", fast,
                  slow);
    assert_true(slow > fast && slow > 0);
}

/* Two and three replicas of a stage, whose passes sum gradients in turn (ZeRO 2). */
TEST(sums_inside_passes)
{
    static const struct layout layouts[] = {
        {.n_stages = 1, .ranks = {0}, .replicas = {2}, .order = ORDER_GPIPE},
        {.n_stages = 2, .ranks = {0, 2}, .replicas = {2, 2}, .order = ORDER_1F1B},
        {.n_stages = 2, .ranks = {0, 2}, .replicas = {2, 2}, .order = ORDER_SPLIT},
        {.n_stages = 2, .ranks = {0, 2}, .replicas = {2, 2}, .order = ORDER_REVERSE},
        {.n_stages = 2, .ranks = {0, 2}, .replicas = {2, 1}, .order = ORDER_1F1B},
        {.n_stages = 2, .ranks = {0, 1}, .replicas = {1, 2}, .order = ORDER_SPLIT},
    };

    real_cuts = 2;
    for (uint32_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        uneven = layouts[i].n_stages == 2 && layouts[i].replicas[0] != layouts[i].replicas[1];
        print_message("layout %u\n", i);
        rehearsal(&layouts[i], 0, 0, 1);
        rehearsal(&layouts[i], i + 1, 4000000000u, 1);
        rehearsal(&layouts[i], i + 1, 100000000u, 2);
    }
    real_cuts = 0;
    uneven = false;
}
