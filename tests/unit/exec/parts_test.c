/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas in parts against the whole model: initial values are its own, to the bit; losses, logits
 * and weights after some steps are its own but for the rounding of sums that are cut in another
 * way, which a wrong element, sum or gather does not come near; what is not split has the same bits
 * on all parts. A part that stays away is missed by name.
 */
#include <stdatomic.h>

#include "exec/record.h"
#include "loop/emulate.h"
#include "sim/sim.h"
#include "graph/split.h"

#include "unit/exec/split_real.h"

enum { STEPS = 4, CLASSES = 7, BATCH = 8 };

static const struct layout alone = {1, {0}, ORDER_GPIPE, false, {0}};

/* --- weights ---------------------------------------------------------------------------------- */

struct holding {
    const float *whole, *own;
    double most; /* difference */
};

static void hold_run(void *context, uint64_t whole, uint64_t own, uint64_t n)
{
    struct holding *holding = context;

    for (uint64_t i = 0; i < n; i++) {
        const double off = fabs((double)holding->whole[whole + i] - (double)holding->own[own + i]);

        holding->most = isnan(off) ? INFINITY : fmax(holding->most, off);
    }
}

/* Which part of its replica a rank is. */
static uint32_t part_of(const struct real *split, uint32_t rank)
{
    uint32_t group_of[MOST_RANKS], part = 0;

    pst_plan_groups(split->plan, group_of);
    while (rank > part && group_of[rank - part - 1] == group_of[rank]) {
        part++;
    }
    return part;
}

/* All replicas of a part together keep its weights: each has a piece of them. */
static void hold_pieces(struct real *split, uint32_t parameter, float *values,
                        struct holding *holding)
{
    const struct pst_parameter *own = &split->graph->params[parameter];
    const uint32_t n_parts = pst_graph_parts(split->graph, own->users[0]);

    for (uint32_t part = 0; part < n_parts; part++) {
        memset(values, 0xFF, own->elems * sizeof *values);
        for (uint32_t r = 0; r < split->n_ranks; r++) {
            if (part_of(split, r) == part) {
                pst_exec_get_copy(split->exec, parameter, r, values); /* if it is of its stage */
            }
        }
        pst_box_runs(own, part, hold_run, holding);
    }
}

/* The parts' elements of a parameter are those of the whole one, off by no more than that. */
static void hold_parameter(struct real *split, struct real *whole, uint32_t parameter, double off)
{
    const struct pst_parameter *own = &split->graph->params[parameter];
    const uint64_t n = whole->graph->params[parameter].elems;
    float *all = malloc(n * sizeof *all), *first = malloc(n * sizeof *first);
    float *values = malloc(n * sizeof *values);
    struct holding holding = {all, values, 0};

    assert_int_equal(pst_box_whole(own), n);
    assert_int_equal(pst_exec_get_parameter(whole->exec, parameter, all), PST_OK);
    if (split->plan->zero == 3) {
        hold_pieces(split, parameter, values, &holding);
    }
    for (uint32_t r = 0; r < split->n_ranks && split->plan->zero < 3; r++) {
        const uint32_t part = part_of(split, r);

        if (pst_exec_get_copy(split->exec, parameter, r, values) != PST_OK) {
            continue; /* of another stage */
        }
        pst_box_runs(own, part, hold_run, &holding);
        if (part == 0) {
            memcpy(first, values, own->elems * sizeof *first);
        } else if (!pst_is_split(own)) {
            assert_memory_equal(values, first, own->elems * sizeof *first);
        }
    }
    if (!(holding.most <= off)) {
        fail_msg("%s is off by %g", own->name, holding.most);
    }
    free(values);
    free(first);
    free(all);
}

static void hold_weights(struct real *split, struct real *whole, double off)
{
    for (uint32_t p = 0; p < whole->graph->n_params; p++) {
        hold_parameter(split, whole, p, off);
    }
}

/* --- a run ------------------------------------------------------------------------------------ */

static struct {
    uint32_t dtype;
    double off; /* what differs by less is the same */
} type = {PST_F32, 1e-5};

static double off_by(double a, double b)
{
    return fabs(a - b) / fabs(b);
}

/* Evaluation keeps the logits of the last micro-batch. Without replicas it is smaller. */
static uint64_t n_logits(const struct real *real)
{
    const struct pst_graph *model = pst_graph_model(real->graph);

    return real->eval_plan->stages[real->eval_plan->n_stages - 1].microbatch_size *
           model->tensors[model->logits].elems;
}

static void hold_logits(struct real *split, struct real *whole)
{
    const uint64_t n = n_logits(split), n_whole = n_logits(whole);
    float *own = malloc((n + 1) * sizeof *own), *all = malloc(n_whole * sizeof *all);
    struct pst_batch batch = {.first_sample = 0};
    struct pst_error err = {0};
    double losses[2];

    memcpy(batch.inputs, whole->inputs, sizeof whole->inputs);
    MUST(pst_exec_eval(whole->exec, &batch, &losses[0], all, n_whole, &err));
    MUST(pst_exec_eval(split->exec, &batch, &losses[1], own, n, &err));
    assert_true(off_by(losses[1], losses[0]) < type.off);
    for (uint64_t i = 0; i < n_whole; i++) {
        const double value = (double)own[n - n_whole + i];

        if (!(fabs(value - (double)all[i]) < 10 * type.off)) {
            fail_msg("logit %u is %g, not %g", (unsigned)i, value, (double)all[i]);
        }
    }
    assert_int_equal(pst_exec_eval(split->exec, &batch, &losses[1], own, n + 1, NULL),
                     PST_ERR_BUG); /* parts have the same, not more */
    free(all);
    free(own);
}

/* Uses momentum: adam would enlarge small differences of gradients, which it divides by their
   size. */
static void check(const char *model, const char *settings, const struct layout *layout,
                  uint32_t parts, double clip)
{
    FINISHED_BY(real_destroy) struct real whole;
    FINISHED_BY(real_destroy) struct real split;

    print_message("%s, %u parts, %u stages of %u, ...\n", settings, parts, layout->n_stages,
                  layout->replicas[0]);
    real_create(&whole, model, settings, type.dtype, layout->order < ORDER_2BW ? &alone : layout,
                BATCH, 1, clip);
    real_data(&whole, CLASSES);
    split_create(&split, model, settings, type.dtype, layout, BATCH, parts, clip);
    real_data(&split, CLASSES);
    hold_weights(&split, &whole, 0);
    for (uint32_t step = 1; step <= STEPS; step++) {
        const struct pst_update update = {
            .optimizer = PST_MOMENTUM, .lr = 0.05f, .momentum = 0.9f, .step = step};
        const struct pst_step_result expected = real_step(&whole, &update);
        const struct pst_step_result result = real_step(&split, &update);

        if (!(off_by(result.loss, expected.loss) < type.off) ||
            !(off_by(result.grad_norm, expected.grad_norm) < type.off)) {
            fail_msg("step %u: loss %.9g, norm %.9g, not %.9g, %.9g", step, result.loss,
                     result.grad_norm, expected.loss, expected.grad_norm);
        }
    }
    hold_weights(&split, &whole, type.off);
    hold_logits(&split, &whole);
    real_check_peaks(&split);
}

/* Two pairs of fan and sum a block; the embedding is tied to the head. */
static const char gpt[] = "layers=2 dim=16 heads=4 context=8 vocab=7";
static const char untied[] = "layers=2 dim=16 heads=4 context=8 vocab=8 tied=false";

TEST(one_stage)
{
    check("gpt", gpt, &alone, 2, 0);
    check("gpt", gpt, &alone, 4, 0.5);
    check("gpt", gpt, &(struct layout){1, {0}, ORDER_GPIPE, true, {0}}, 2, 0);
    check("mmt", "layers=1 dim=16 heads=4 context=8 vocab=7", &alone, 2, 0);
}

/* Gathers: queries are joined, because two key heads have no four parts. */
TEST(gathers)
{
    static const char llama[] = "layers=1 dim=256 heads=4 kv_heads=2 ff=24 context=3 vocab=7";

    check("llama", llama, &alone, 4, 0.5);
    check("llama", llama, &(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, 4, 0);
}

TEST(stages)
{
    check("gpt", "layers=2 dim=16 heads=4 context=8 vocab=7 dropout=0.2", &alone, 2, 0);
    check("gpt", gpt, &(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, 4, 0.5);
    check("gpt", gpt, &(struct layout){3, {0, 1, 2}, ORDER_SPLIT, true, {0}}, 2, 0);
    check("gpt", gpt, &(struct layout){4, {0, 1, 0, 1}, ORDER_GPIPE, false, {0}}, 2, 0);
}

TEST(replicas)
{
    check("gpt", gpt, &(struct layout){1, {0}, ORDER_GPIPE, false, {2}}, 2, 0.5);
    check("gpt", gpt, &(struct layout){2, {0}, ORDER_1F1B, false, {2, 2}}, 2, 0);
    check("gpt", gpt, &(struct layout){3, {0}, ORDER_GPIPE, false, {1, 2, 1}}, 2, 0.5);
}

/* Each replica updates a piece of what its part has. */
TEST(pieces)
{
    for (real_cuts = 1; real_cuts <= 3; real_cuts++) {
        check("gpt", gpt, &(struct layout){1, {0}, ORDER_GPIPE, false, {2}}, 2, 0.5);
        check("gpt", gpt, &(struct layout){2, {0}, ORDER_1F1B, false, {2, 2}}, 2, 0);
        check("gpt", gpt, &(struct layout){2, {0}, ORDER_SPLIT, true, {2, 2}}, 2, 0.5);
    }
    real_cuts = 0;
}

/* Results are rounded to 8 bits. */
TEST(bf16)
{
    type.dtype = PST_BF16;
    type.off = 4e-3;
    check("gpt", gpt, &alone, 2, 0);
    check("gpt", gpt, &(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, 4, 0.5);
    type.dtype = PST_F32;
    type.off = 1e-5;
}

/* Stages of unlike numbers of parts; ties are of equal ones. */
TEST(degrees)
{
    static const uint16_t cases[][4] = {{1, 2}, {2, 1}, {1, 4}, {4, 1}, {4, 2}, {2, 4}};
    static const uint16_t middle[] = {2, 4, 2}, four[] = {1, 4, 2, 2}, ties[] = {2, 1, 4, 2};

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        split_degrees = cases[i];
        check("gpt", untied, &(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, 4, 0.5);
        check("gpt", untied, &(struct layout){2, {0, 1}, ORDER_GPIPE, true, {0}}, 4, 0);
    }
    split_degrees = middle;
    check("gpt", untied, &(struct layout){3, {0, 1, 2}, ORDER_SPLIT, true, {0}}, 4, 0.5);
    check("llama", "layers=2 dim=32 heads=4 kv_heads=2 context=8 vocab=8 ff=24",
          &(struct layout){3, {0, 1, 2}, ORDER_1F1B, false, {0}}, 4, 0.5);
    split_degrees = four;
    check("gpt", untied, &(struct layout){4, {0, 1, 2, 3}, ORDER_1F1B, false, {0}}, 4, 0);
    split_degrees = ties;
    check("gpt", gpt, &(struct layout){4, {0, 1, 2, 3}, ORDER_1F1B, false, {0}}, 4, 0.5);
    split_degrees = NULL;
}

/* Rows of tokens are brought together before they go to a stage of another degree. */
TEST(degrees_of_rows)
{
    static const uint16_t up[] = {2, 4}, down[] = {4, 1}, middle[] = {2, 4, 2};

    split_rows = true;
    split_degrees = up;
    check("gpt", untied, &(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, 4, 0.5);
    split_degrees = down;
    check("gpt", untied, &(struct layout){2, {0, 1}, ORDER_GPIPE, true, {0}}, 4, 0);
    split_degrees = middle;
    check("llama", "layers=2 dim=32 heads=4 kv_heads=2 context=8 vocab=8 ff=24",
          &(struct layout){3, {0, 1, 2}, ORDER_SPLIT, false, {0}}, 4, 0.5);
    split_degrees = NULL;
    split_rows = false;
}

/* Each replica of the wide stage updates a piece of what its part has. */
TEST(degrees_and_replicas)
{
    static const uint16_t narrow[] = {2, 1}, wide[] = {1, 4};

    for (real_cuts = 0; real_cuts <= 3; real_cuts++) {
        split_degrees = narrow;
        check("gpt", untied, &(struct layout){2, {0}, ORDER_1F1B, false, {2, 2}}, 2, 0.5);
        check("gpt", untied, &(struct layout){2, {0}, ORDER_GPIPE, false, {1, 2}}, 2, 0);
        split_degrees = wide;
        check("gpt", untied, &(struct layout){2, {0}, ORDER_GPIPE, true, {1, 2}}, 4, 0.5);
    }
    real_cuts = 0;
    split_degrees = NULL;
}

/* Passes of two batches at once, with sums of gradients under way beside those of parts. */
TEST(delayed)
{
    check("gpt", gpt, &(struct layout){2, {0, 1}, ORDER_2BW, false, {0}}, 2, 0);
    check("gpt", gpt, &(struct layout){2, {0}, ORDER_2BW, false, {2, 2}}, 2, 0.3);
    split_degrees = (const uint16_t[]){1, 4};
    check("gpt", untied, &(struct layout){2, {0, 1}, ORDER_2BW, false, {0}}, 4, 0);
    split_degrees = (const uint16_t[]){4, 2};
    check("gpt", untied, &(struct layout){2, {0, 1}, ORDER_2BW, false, {0}}, 4, 0.3);
    split_degrees = NULL;
}

/* --- who is missing --------------------------------------------------------------------------- */

static const struct pst_transport_ops *threads;
static atomic_uint n_posted;

/* Rank 1 comes too late to its fourth meeting of parts: that of the table is the first. */
static pst_status post_late(struct pst_transport *transport, uint32_t rank,
                            const struct pst_meeting *meeting, pst_request *ret_request)
{
    if (rank == 1 && meeting->lane == PST_MEET_PARTS && ++n_posted == 4) {
        usleep(400000);
    }
    return threads->meet(transport, rank, meeting, ret_request);
}

TEST(missing_part)
{
    static struct pst_transport_ops late;
    FINISHED_BY(real_destroy) struct real real;
    const struct pst_update update = {.optimizer = PST_SGD, .lr = 0.1f, .step = 1};
    struct pst_batch batch = {.first_sample = 0};
    struct pst_step_result result;
    struct pst_error err = {0};

    threads = load_threads();
    late = *threads;
    late.meet = post_late;
    offloading.stall_ns = 100000000;
    split_transport = &late;
    split_create(&real, "gpt", gpt, PST_F32, &alone, BATCH, 2, 0);
    split_transport = NULL;
    offloading.stall_ns = 0;
    real_data(&real, CLASSES);
    memcpy(batch.inputs, real.inputs, sizeof real.inputs);
    assert_int_equal(pst_exec_step(real.exec, &batch, &update, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    assert_non_null(
        strstr(err.message, "for rank 1 in a sum over parts (h.1.attn.c_proj:sum) among 2 ranks"));
    assert_non_null(strstr(err.details, "operator h.1.attn.c_proj:sum, pass F, samples 0 + 2"));
}

/* --- plans that are none of parts ------------------------------------------------------------- */

TEST(groups_do_not_run)
{
    FINISHED_BY(real_destroy) struct real real;
    struct pst_exec_config config;
    struct pst_error err = {0};

    split_plan(&real, "gpt", "layers=1 dim=16 heads=4 context=8 vocab=7", PST_F32, &alone, BATCH, 2,
               0, &config);
    real.plan->stages[0].tensor = 1;
    assert_int_equal(pst_exec_create(&config, &real.exec, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    assert_non_null(strstr(err.message, "wte:sum is of 2 parts"));
    real.exec = NULL;
}

static const struct pst_device_ops *without_parts(const struct pst_device_ops *ops)
{
    static struct pst_device_ops plain;

    plain = *ops;
    plain.flags &= ~(uint32_t)PST_DEVICE_PARTS;
    return &plain;
}

TEST(other_devices_are_refused)
{
    FINISHED_BY(real_destroy) struct real real;
    struct pst_exec_config config;
    struct pst_error err = {0};

    real_watch = without_parts;
    split_plan(&real, "gpt", "layers=1 dim=16 heads=4 context=8 vocab=7", PST_F32, &alone, BATCH, 2,
               0, &config);
    real_watch = NULL;
    assert_int_equal(pst_exec_create(&config, &real.exec, &err), PST_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "device cpu cannot meet others inside passes");
    real.exec = NULL;
}

/* --- time ------------------------------------------------------------------------------------- */

enum {
    US = 1000,
    KERNEL_US = 300,
    SUM_US = 700,
    GATHER_US = 200,
    BLOCK_SUMS = 2,
    ROW = 8 * 16 * SIZE,
    NUMBERS = 2 * 8 * PST_CE_NUMBERS * SIZE
};

static const struct pst_graph *timed;

static uint64_t kernel_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice)
{
    return pst_op_meets(&timed->ops[op], pass) ? 0 : KERNEL_US * US; /* nobody asks for these */
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    return 0;
}

static uint64_t transfer_ns(void *context, uint64_t bytes, uint32_t from, uint32_t to)
{
    return 0;
}

static uint64_t meeting_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n_ranks)
{
    return n_ranks != 2 || ranks[0] != 0 || ranks[1] != 1                      ? 0
           : bytes.added == ROW * sizeof(float) && bytes.copied == bytes.added ? SUM_US * US
           : bytes.added == 0 && bytes.copied == NUMBERS * sizeof(float)       ? GATHER_US * US
                                                                               : 0;
}

static uint32_t node(void *context, uint32_t rank)
{
    return 0;
}

struct clocked {
    const struct real *real;
    uint32_t n; /* passes */
};

/* Two sums in each block, forward and backward, and one of the table, or of the head's input;
   forward a gather of what the parts say of the logits. */
static void look_at(void *context, const struct pst_recorded *recorded)
{
    struct clocked *clocked = context;
    const struct pst_program *program = clocked->real->programs[recorded->rank];
    const struct pst_program_instr *rows = &program->lists[recorded->at];
    uint64_t us = 0;
    uint32_t n_sums = 0, n_gathers = 0;

    if (recorded->instr->op > PST_I_R) {
        return;
    }
    for (uint32_t c = rows->first_call; c < rows->first_call + rows->n_calls; c++) {
        const struct pst_program_call *call = &program->calls[c];
        const bool kernel = call->kind == PST_C_KERNEL;
        const bool meets = kernel && pst_op_meets(&timed->ops[call->op], call->pass);

        const bool gathers =
            meets && pst_convert_work(&timed->ops[call->op], call->pass) == PST_WORK_GATHER;

        n_gathers += gathers;
        n_sums += meets && !gathers;
        us += gathers ? GATHER_US : meets ? SUM_US : kernel ? KERNEL_US : 0;
    }
    assert_int_equal(n_sums, 2 * BLOCK_SUMS + 1);
    assert_int_equal(n_gathers, recorded->instr->op == PST_I_F);
    assert_int_equal(recorded->end_ns - recorded->start_ns, us * US);
    clocked->n++;
}

/* The clocks of all parts stop for a sum as long as its links take. */
TEST(emulated)
{
    static const struct pst_device_times times = {NULL, kernel_ns, update_ns, NULL};
    static const struct pst_exec_links links = {NULL, transfer_ns, meeting_ns, node, NULL};
    const struct pst_update update = {.optimizer = PST_MOMENTUM, .lr = 0.1f, .step = 1};
    FINISHED_BY(real_destroy) struct real real;
    struct pst_exec_config config;
    struct clocked clocked = {&real, 0};
    struct pst_error err = {0};
    uint32_t n_passes = 0;

    split_device = "emulated";
    split_plan(&real, "gpt", gpt, PST_F32, &alone, BATCH, 2, 0, &config);
    split_device = "cpu";
    timed = real.graph;
    config.device_config.times = &times;
    config.links = &links;
    config.recorder = pst_recorder_create(real.graph, real.plan, config.programs, 1);
    MUST(pst_exec_create(&config, &real.exec, &err));
    real_data(&real, CLASSES);
    real_step(&real, &update);
    for (uint32_t r = 0; r < real.n_ranks; r++) {
        n_passes += 2 * real.plan->stages[0].n_microbatches;
    }
    pst_recorder_each(config.recorder, look_at, &clocked);
    assert_int_equal(clocked.n, n_passes);
    real_eval(&real);
    real_check_peaks(&real);
    pst_recorder_destroy(config.recorder);
}

/* --- time, where degrees differ --------------------------------------------------------------- */

struct foretold {
    uint64_t *start[MOST_RANKS], *end[MOST_RANKS];
    uint64_t begin_ns, last_ns; /* of the recorded step */
    uint32_t n;                 /* passes and updates that were compared */
};

static void find_begin(void *context, const struct pst_recorded *recorded)
{
    struct foretold *foretold = context;
    const bool first = recorded->rank == 0 && recorded->at == 0;

    foretold->begin_ns = first ? recorded->start_ns : foretold->begin_ns;
}

/* Parts that begin a pass together wait in it: it is where it ends that counts. */
static void hold_end(void *context, const struct pst_recorded *recorded)
{
    struct foretold *foretold = context;
    const uint64_t end = recorded->end_ns - foretold->begin_ns;
    const uint64_t expected = foretold->end[recorded->rank][recorded->at];

    if (recorded->instr->op > PST_I_R && recorded->instr->op != PST_I_STEP) {
        return;
    }
    foretold->last_ns = end > foretold->last_ns ? end : foretold->last_ns;
    if (off_by((double)end, (double)expected) > 2e-3) {
        fail_msg("rank %u at %u: %s ends at %llu ns, not at %llu", recorded->rank, recorded->at,
                 pst_instr_name(recorded->instr->op), (unsigned long long)end,
                 (unsigned long long)expected);
    }
    foretold->n++;
}

/* Emulated devices take the time that the simulator foretells, and the memory of their programs. */
static void take_foretold_time(const struct layout *layout, const uint16_t *degrees)
{
    const struct pst_update update = {.optimizer = PST_MOMENTUM, .lr = 0.1f, .step = 1};
    FINISHED_BY(real_destroy) struct real real;
    struct foretold foretold = {0};
    struct pst_session session = {0};
    struct pst_emulation emulation;
    struct pst_exec_config config;
    struct pst_error err = {0};
    uint64_t step_ns = 0;

    split_device = "emulated";
    split_degrees = degrees;
    split_plan(&real, "gpt", untied, PST_F32, layout, BATCH, 4, 0.5, &config);
    split_device = "cpu";
    split_degrees = NULL;
    session.device_ops = real.device_ops;
    session.graph = real.graph;
    session.cost = real.cost;
    session.planned.plan = real.plan;
    pst_emulation_init(&emulation, &session, 1);
    for (uint32_t r = 0; r < real.n_ranks; r++) {
        foretold.start[r] = calloc(real.plan->devices[r].n_instrs, sizeof(uint64_t));
        foretold.end[r] = calloc(real.plan->devices[r].n_instrs, sizeof(uint64_t));
    }
    MUST(pst_sim_run(real.plan, real.graph, &real.cost, foretold.start, foretold.end, &step_ns,
                     &err));
    config.device_config.times = &emulation.device;
    config.links = &emulation.links;
    config.recorder = pst_recorder_create(real.graph, real.plan, config.programs, 1);
    MUST(pst_exec_create(&config, &real.exec, &err));
    real_data(&real, CLASSES);
    real_step(&real, &update);
    pst_recorder_each(config.recorder, find_begin, &foretold);
    pst_recorder_each(config.recorder, hold_end, &foretold);
    assert_true(foretold.n > 4 * real.n_ranks);
    assert_true(off_by((double)foretold.last_ns, (double)step_ns) < 2e-3);
    real_eval(&real);
    real_check_peaks(&real);
    pst_recorder_destroy(config.recorder);
    for (uint32_t r = 0; r < real.n_ranks; r++) {
        free(foretold.start[r]);
        free(foretold.end[r]);
    }
}

TEST(foretold_times_of_degrees)
{
    const struct layout two = {2, {0, 1}, ORDER_1F1B, false, {0}};
    const struct layout three = {3, {0, 1, 2}, ORDER_SPLIT, true, {0}};
    const struct layout wide = {2, {0}, ORDER_GPIPE, true, {1, 2}};

    take_foretold_time(&two, (const uint16_t[]){1, 4});
    take_foretold_time(&two, (const uint16_t[]){4, 1});
    take_foretold_time(&two, (const uint16_t[]){4, 2});
    take_foretold_time(&two, (const uint16_t[]){2, 4});
    take_foretold_time(&three, (const uint16_t[]){2, 4, 1});
    take_foretold_time(&wide, (const uint16_t[]){1, 4});
}
