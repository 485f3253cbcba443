/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/saturate.h"
#include "base/signals.h"
#include "base/util.h"
#include "data/prefetch.h"
#include "generate/generate.h"
#include "graph/custom.h"
#include "loop/emulate.h"
#include "loop/flops.h"
#include "loop/run_timeline.h"
#include "loop/schedule.h"

#define SKIP_LIMIT 3 /* non-finite steps in a row that train.on_non_finite = "skip" lets pass */

enum { ON_NON_FINITE_STOP = 0, ON_NON_FINITE_SKIP = 1 };

/* Steps in flight: ranks that are through with theirs begin the next. */
#define IN_FLIGHT 3
#define AHEAD     2 /* batches that are read beyond them */

/* The forward twin, and the last evaluation with it. Its sizes are written by prepare(), the rest
   by every evaluation. */
struct evaluation {
    struct pst_sample_shape shape;
    uint32_t batch;               /* samples of one call */
    void *inputs[PST_MAX_INPUTS]; /* of a batch; also for the digest, and steps without data */
    float *logits;                /* NULL: nothing is scored */
    uint64_t n_targets, n_right, n_samples;
    double loss; /* the one at the end; NaN until then */
};

/* The steps of this run. Written by find_begin(), then by submit_step() and collect(). */
struct steps {
    uint64_t first, first_sample;  /* where the run begins */
    uint64_t n_submitted, n_ended; /* steps handed to the executor; that ended */
    uint32_t n_skipped;            /* of them the last so many in a row */
    uint64_t all_skipped;          /* by this run */
    uint64_t *ns, total_ns;        /* of each; of all */
    double first_loss, final_loss;
};

/* When checkpoints are saved. Written by prepare(), is_save_due() and save_checkpoint(). */
struct saving {
    struct pst_checkpoint *begin;        /* that it goes on from; NULL: it begins, or has begun */
    struct pst_checkpoint_counts counts; /* where the run begins */
    bool due;                            /* a checkpoint is, since some step */
    uint64_t looked_at;                  /* the last step at which that was asked */
    uint64_t n_wishes;                   /* that were heeded */
    uint64_t data_digest;
};

struct run {
    struct pst_session *session;
    const struct pst_job *job;
    const struct pst_train_listener *listener;
    const struct pst_resume_request *resume;
    const struct pst_data *data;    /* NULL: devices without data */
    struct pst_emulation emulation; /* where they are; else what is predicted */
    struct pst_recorder *recorder;  /* of the last steps */
    struct pst_timeline *timeline;  /* what it recorded; NULL: not yet, nothing, not here */
    struct pst_exec *exec;
    struct pst_sample_shape shape; /* of steps */
    uint32_t batch;                /* samples of a step */
    struct pst_prefetch *prefetch; /* of steps; NULL: there is no data */
    bool starved;                  /* there is no further batch: its data cannot be read */
    struct pst_saver *saver;       /* NULL: nothing is saved */
    struct saving saving;
    struct steps steps;
    struct evaluation eval;
    uint64_t peak_bytes;
    double step_flops, peak_flops; /* flops.h */
    char *sample;
    struct pst_tokenizer *tokenizer; /* of a run without data; NULL: tokens are bytes */
};

/* The smallest number of samples that is whole micro-batches on every stage: generated text would
   pay for each one more with every character. */
static uint32_t one_microbatch(const struct pst_plan *plan)
{
    uint32_t samples = 1;

    for (uint32_t i = 0; i < plan->n_stages; i++) {
        samples *= plan->stages[i].microbatch_size /
                   (uint32_t)pst_gcd(samples, plan->stages[i].microbatch_size);
    }
    return samples;
}

/* Samples of an evaluation whose logits are kept: the last so many. */
static uint32_t kept_samples(const struct run *run)
{
    const struct pst_plan *plan = run->session->eval_plan;
    const struct pst_graph *graph = run->session->graph;
    uint32_t op = graph->tensors[graph->logits].producer, s = 0;

    while (pst_plan_node(&plan->stages[s], op) == PST_NONE) {
        s++;
    }
    return plan->stages[s].microbatch_size;
}

static uint64_t kept_logits(const struct run *run)
{
    const struct pst_graph *graph = pst_graph_model(pst_session_eval_graph(run->session));

    return kept_samples(run) * graph->tensors[graph->logits].elems;
}

static bool evaluates(const struct run *run)
{
    return run->data != NULL && run->job->training->loop.eval_batches > 0 &&
           pst_data_samples(run->data, PST_SPLIT_VALID) > 0;
}

/* Wall time of a second of emulated devices; 0: they are real. */
static double emulated_scale(const struct run *run)
{
    return pst_session_has_no_data(run->session) ? run->emulation.scale : 0;
}

/* The result is the same in all processes. */
static bool is_told_to_stop(const struct run *run)
{
    return pst_exec_told(run->exec) != 0;
}

static bool generates(const struct run *run)
{
    return run->job->training->loop.sample > 0 && !pst_session_has_no_data(run->session);
}

/* Right answers are those of classes. */
static bool scores_answers(const struct run *run)
{
    return run->listener->scores && evaluates(run) && run->shape.classes > 0;
}

static void allocate(struct run *run)
{
    run->steps.ns = pst_alloc((size_t)run->job->training->loop.steps, sizeof *run->steps.ns);
    for (uint32_t k = 0; k < run->shape.n_inputs; k++) {
        run->eval.inputs[k] = pst_alloc(run->batch, run->shape.inputs[k].bytes);
    }
}

/* A device that stands apart has a link of its own. */
static uint64_t host_rate(const struct run *run)
{
    bool apart = (run->session->device_ops->flags & PST_DEVICE_APART) != 0;
    return run->job->run.host_bandwidth > 0 || apart ? run->job->run.host_bandwidth
                                                     : run->session->cluster.host_bandwidth;
}

/* Returns the counts of the checkpoint if batch and updates stay as they were, else new ones. */
static struct pst_checkpoint_counts counts_behind(const struct run *run, uint64_t updates)
{
    const struct pst_manifest *was = &run->saving.begin->manifest;
    struct pst_checkpoint_counts counts = run->saving.counts;

    if (was->version >= 2 && was->updates == updates && was->counts.each == counts.each &&
        was->batch == run->batch / run->session->graph->slices) {
        return was->counts;
    }
    counts.step = was->step;
    counts.samples = was->samples;
    counts.updates = updates;
    return counts;
}

static pst_status start_exec(struct run *run, struct pst_error *err)
{
    const struct pst_session *session = run->session;
    struct pst_checkpoint_source values = {.checkpoint = run->saving.begin,
                                           .graph = session->graph};
    struct pst_exec_source source = pst_checkpoint_source(&values);
    struct pst_exec_config config = {
        .graph = session->graph,
        .plan = session->planned.plan,
        .programs = (const struct pst_program *const *)session->planned.programs,
        .eval_plan = session->eval_plan,
        .eval_graph = pst_session_eval_graph(session),
        .eval_programs = (const struct pst_program *const *)session->eval_programs,
        .device = session->device_ops,
        .device_config = session->device_config,
        .transport = session->transport_ops,
        .first_local = session->team.rank,
        .n_local = session->team.ops != NULL ? 1 : 0,
        .stop = pst_stop_signal,
        .wishes = pst_stop_wishes,
        .stall_ns = run->job->run.stall_limit,
        .edges = pst_session_edges(session),
        .seed = (uint64_t)run->job->train.seed,
        .source = session->init,
        .clip = run->job->train.clip,
        .rules = session->rules.rules,
        .n_rules = session->rules.n,
        .skip_non_finite = run->job->train.on_non_finite == ON_NON_FINITE_SKIP,
        .recorder = run->recorder,
        .copies = {.bytes_per_s = host_rate(run),
                   .shared_link = session->cluster.link_directions == 2,
                   .check = run->job->run.copy_check},
        .graphs = pst_session_graphs(session),
        .predicted = &run->emulation.device,
    };

    run->saving.counts.each = pst_exec_updates_of_step(session->planned.plan);
    if (run->saving.begin != NULL) {
        pst_status status = pst_resume_fits(run->saving.begin, session, run->saving.data_digest,
                                            run->resume, &values.without_slots, err);

        if (status != PST_OK) {
            return status;
        }
        config.source = &source;
        config.first_step = run->steps.first;
        config.first_update = values.without_slots ? 0 : run->saving.begin->manifest.updates;
        run->saving.counts = counts_behind(run, config.first_update);
    }
    if (pst_session_has_no_data(session)) {
        config.device_config.times = &run->emulation.device;
        config.links = &run->emulation.links;
        config.stall_ns = (uint64_t)((double)config.stall_ns * run->emulation.scale);
    }
    return pst_exec_create(&config, &run->exec, err);
}

static bool saves_checkpoints(const struct run *run)
{
    return run->resume != NULL && run->data != NULL &&
           run->job->training->checkpoint.folder[0] != '\0';
}

/* Where the run begins. */
static pst_status find_begin(struct run *run, struct pst_error *err)
{
    const bool first = pst_team_is_first(&run->session->team);
    const struct pst_manifest *was;
    pst_status status;

    if (run->resume == NULL || run->resume->from == NULL) {
        return PST_OK;
    }
    if (run->data == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "--resume: run.device = \"%s\" rehearses a run and has no weights",
                        run->job->run.device);
    }
    status = pst_resume_open(run->session, run->resume, &run->saving.begin, err);
    if (status != PST_OK || run->saving.begin == NULL) {
        if (status == PST_OK && first) {
            pst_log(PST_LOG_WARN, "checkpoint", "no checkpoint in %s: training starts at step 0",
                    run->job->training->checkpoint.folder);
        }
        return status;
    }
    was = &run->saving.begin->manifest;
    run->steps.first = run->steps.n_submitted = run->steps.n_ended = was->step;
    run->steps.first_sample = was->samples * run->session->graph->slices;
    run->steps.n_skipped = was->skipped;
    run->saving.looked_at = run->steps.first;
    return PST_OK;
}

static pst_status make_saver(struct run *run, struct pst_error *err)
{
    const struct pst_saver_config config = {.session = run->session,
                                            .data_digest = run->saving.data_digest,
                                            .first_step = run->steps.first,
                                            .context = run->listener->context,
                                            .saved = run->listener->saved};

    return pst_saver_create(&config, &run->saver, err);
}

static pst_status start_reading(struct run *run, struct pst_error *err)
{
    uint64_t steps = (uint64_t)run->job->training->loop.steps;

    if (run->data == NULL || steps <= run->steps.first) {
        return PST_OK;
    }
    return pst_prefetch_create(run->data, &run->shape, run->steps.first_sample, run->batch,
                               steps - run->steps.first, IN_FLIGHT + AHEAD, &run->prefetch, err);
}

static pst_status open_tokenizer(struct run *run, struct pst_error *err)
{
    const struct pst_job *job = run->job;

    return generates(run) && run->data == NULL && job->training->data.tokenizer[0] != '\0'
               ? pst_config_place(
                     job->config, "data", "tokenizer",
                     pst_tokenizer_read(job->training->data.tokenizer, &run->tokenizer, err), err)
               : PST_OK;
}

/* Records the last steps only, so that others cost nothing. With a trace it records all steps, for
   the run may be stopped early. */
static void record_last_steps(struct run *run)
{
    const struct pst_session *session = run->session;
    const uint64_t n = (uint64_t)run->job->training->output.trace_steps;
    const uint64_t all = (uint64_t)run->job->training->loop.steps;
    const uint64_t steps = all > run->steps.first ? all - run->steps.first : 0;

    run->recorder = pst_recorder_create(
        session->graph, session->planned.plan,
        (const struct pst_program *const *)session->planned.programs, (uint32_t)n);
    if (run->listener->trace == NULL && steps > n) {
        pst_recorder_skip(run->recorder, steps - n);
    }
}

static pst_status start_run(struct run *run, struct pst_error *err)
{
    pst_status status = start_exec(run, err);

    PST_TRY(status, start_reading(run, err));
    if (status == PST_OK && run->saving.begin != NULL && run->listener->resumed != NULL) {
        run->listener->resumed(run->listener->context, run->saving.begin->path, run->steps.first);
    }
    if (status == PST_OK && run->saver != NULL) {
        status = pst_saver_begin(run->saver, run->exec, err);
    }
    return status;
}

/* Text and right answers are read off the logits of the last micro-batch, and slices of sequences
   are not enough for that. */
static pst_status make_twin(struct run *run, struct pst_error *err)
{
    struct pst_session *session = run->session;
    const bool small = generates(run) || scores_answers(run);
    pst_status status =
        pst_session_twin(session, run->eval.batch, small && session->graph->slices > 1, err);

    return status == PST_OK
               ? pst_sample_shape_of(pst_session_eval_graph(session), &run->eval.shape, err)
               : status;
}

/* Plugins of one version may have been built twice. */
static uint64_t digest_operators(const struct pst_graph *graph)
{
    uint64_t digest = 0;

    for (const struct pst_custom *c = graph->customs; c != NULL; c = c->next) {
        digest = digest * 31 + c->build;
    }
    return digest;
}

/* Each has its own plugins, and reads the data itself. */
static pst_status compare_processes(struct run *run, struct pst_error *err)
{
    const struct pst_team *team = &run->session->team;
    pst_status status =
        pst_team_compare(team, digest_operators(run->session->graph), "builds of operators", err);

    if (status != PST_OK || run->data == NULL) {
        return status;
    }
    status = pst_data_digest(run->data, &run->shape, run->batch, run->eval.inputs,
                             &run->saving.data_digest, err);
    return status == PST_OK ? pst_team_compare(team, run->saving.data_digest, "training data", err)
                            : status;
}

static pst_status prepare(struct run *run, struct pst_error *err)
{
    const struct pst_plan *plan = run->session->planned.plan;
    pst_status status = pst_sample_shape_of(run->session->graph, &run->shape, err);

    run->batch = plan->batch;
    run->step_flops = pst_session_step_flops(run->session);
    run->peak_flops = pst_session_peak_flops(run->session);
    run->eval.batch = run->session->decodes                   ? PST_GENERATE_AT_ONCE
                      : generates(run) || scores_answers(run) ? one_microbatch(plan)
                                                              : plan->batch;
    PST_TRY(status, open_tokenizer(run, err));
    if (status == PST_OK && (evaluates(run) || generates(run))) {
        status = make_twin(run, err);
    }
    for (uint32_t rank = 0; status == PST_OK && rank < plan->n_devices; rank++) {
        uint64_t peak = pst_session_peak(run->session, rank);

        run->peak_bytes = peak > run->peak_bytes ? peak : run->peak_bytes;
    }
    if (status == PST_OK) {
        allocate(run);
    }
    if (status == PST_OK && scores_answers(run)) {
        run->eval.logits = pst_alloc(kept_logits(run), sizeof *run->eval.logits);
    }
    if (status == PST_OK) {
        run->session->saves = saves_checkpoints(run);
        status = pst_session_check_host(run->session, err);
    }
    if (status == PST_OK) {
        pst_emulation_init(&run->emulation, run->session, run->job->run.emulated_scale);
    }
    PST_TRY(status, compare_processes(run, err));
    PST_TRY(status, find_begin(run, err));
    if (status == PST_OK) {
        record_last_steps(run);
    }
    if (status == PST_OK && saves_checkpoints(run)) {
        status = make_saver(run, err);
    }
    PST_TRY(status, start_run(run, err));
    pst_checkpoint_close(run->saving.begin);
    run->saving.begin = NULL;
    return status;
}

/* A batch of held-out samples. */
static pst_status load_held_out(const struct run *run, uint64_t first, uint32_t n,
                                struct pst_batch *ret_batch, struct pst_error *err)
{
    *ret_batch = (struct pst_batch){.first_sample = first};
    memcpy(ret_batch->inputs, run->eval.inputs, sizeof run->eval.inputs);
    return (run->session->whole != NULL ? pst_data_read_whole : pst_data_read)(
        run->data, PST_SPLIT_VALID, first, n, run->eval.inputs, err);
}

/* Counts the targets of the samples whose logits are kept, and those that the largest names. */
static void score_batch(struct evaluation *eval, uint32_t kept)
{
    const struct pst_sample_shape *shape = &eval->shape;
    const int32_t *targets = eval->inputs[pst_sample_input(shape, shape->target)];
    uint32_t classes = (uint32_t)shape->classes;

    targets += (eval->batch - kept) * shape->target->elems;
    for (uint64_t i = 0; i < kept * shape->rows; i++) {
        const int32_t target = targets[i / shape->rows * shape->target->elems + i % shape->rows];

        eval->n_targets += target >= 0;
        eval->n_right += target >= 0 && pst_draw_class(eval->logits + i * classes, classes, 0, 0,
                                                       0) == (uint32_t)target;
    }
}

/* Returns how many targets of the samples count by which the loss is divided; 1: it is the mean
   over the samples of each call. */
static double eval_weight(const struct evaluation *eval, const struct pst_graph *graph)
{
    const int32_t *targets = eval->inputs[pst_sample_input(&eval->shape, eval->shape.target)];

    return graph->token_batch > 0 ? (double)targets[eval->shape.rows] : 1;
}

/* Up to eval_batches batches, spread evenly over what is held out; at least one. Ends early,
   without a result, when the run is told to stop. */
static pst_status evaluate(struct run *run, double *ret_loss, struct pst_error *err)
{
    struct evaluation *eval = &run->eval;
    const bool small = run->listener->scores; /* the last batch may be less than a step's */
    const bool whole = run->session->whole != NULL;
    const uint32_t slices = run->session->graph->slices; /* that a sequence has */
    const uint64_t batch_samples = run->batch / (whole ? slices : 1);
    uint64_t unit = small ? eval->batch : batch_samples;
    uint64_t held = (whole ? pst_data_sequences : pst_data_samples)(run->data, PST_SPLIT_VALID);
    uint64_t wanted =
        pst_sat_mul((uint64_t)run->job->training->loop.eval_batches, batch_samples / unit);
    uint64_t batches = held / unit, calls, per_batch = unit / eval->batch;
    uint64_t n_logits = eval->logits == NULL ? 0 : kept_logits(run);
    const struct pst_graph *graph = pst_session_eval_graph(run->session);
    const double over =
        graph->token_batch == 0 ? 1 : (double)eval->batch / (double)pst_graph_counts_over(graph);
    double sum = 0, weights = 0;

    eval->n_targets = eval->n_right = 0;
    batches = batches > wanted ? wanted : batches == 0 ? 1 : batches;
    calls = batches * per_batch;
    for (uint64_t i = 0; i < calls; i++) {
        uint64_t batch_first =
            held == UINT64_MAX ? i / per_batch * unit : i / per_batch * held / batches;
        uint64_t first = batch_first + i % per_batch * eval->batch;
        struct pst_batch batch;
        double loss = 0;
        pst_status status = load_held_out(run, first, eval->batch, &batch, err);

        run->starved = status != PST_OK;
        PST_TRY(status, pst_exec_eval(run->exec, &batch, &loss, eval->logits, n_logits, err));
        if (status != PST_OK || is_told_to_stop(run)) {
            return status;
        }
        if (eval->logits != NULL) {
            score_batch(eval, kept_samples(run));
        }
        sum += loss * over * eval_weight(eval, graph);
        weights += eval_weight(eval, graph);
    }
    *ret_loss = weights > 0 ? sum / weights : 0;
    eval->n_samples = calls * eval->batch / (whole ? 1 : slices);
    if (run->listener->eval != NULL) {
        run->listener->eval(run->listener->context, run->steps.n_ended, *ret_loss);
    }
    return PST_OK;
}

/* The first sample of a step. */
static uint64_t sample_at(const struct run *run, uint64_t step)
{
    return run->steps.first_sample + (step - run->steps.first) * run->batch;
}

static pst_status submit_step(struct run *run, struct pst_error *err)
{
    uint64_t step = run->steps.n_submitted;
    struct pst_batch batch = {.first_sample = sample_at(run, step)};
    struct pst_update update = pst_update_at(run->job, step);
    uint32_t drain_every = run->session->planned.plan->drain_every;
    void *const *inputs = run->eval.inputs;
    pst_status status =
        run->prefetch == NULL ? PST_OK : pst_prefetch_take(run->prefetch, &inputs, err);

    run->starved = status != PST_OK;
    memcpy(batch.inputs, inputs, sizeof batch.inputs);
    PST_TRY(status, pst_exec_submit(run->exec, &batch, &update, err));
    if (status == PST_OK) {
        run->steps.n_submitted++;
        if (drain_every > 0 && run->steps.n_submitted % drain_every == 0) {
            pst_exec_drain(run->exec);
        }
    }
    return status;
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static bool is_drain(const struct run *run, uint64_t step)
{
    const uint32_t every = run->session->planned.plan->drain_every;

    return every > 0 && step % every == 0;
}

static struct pst_save_moment moment_of(const struct run *run)
{
    const struct steps *steps = &run->steps;
    const uint64_t n = pst_data_samples(run->data, PST_SPLIT_TRAIN);
    const uint64_t samples = sample_at(run, steps->n_ended), made = steps->n_ended - steps->first;
    struct pst_checkpoint_counts counts = run->saving.counts;

    counts.skipped += steps->all_skipped;
    return (struct pst_save_moment){.step = steps->n_ended,
                                    .samples = samples,
                                    .epoch = n > 0 && n < UINT64_MAX ? samples / n : 0,
                                    .skipped = steps->n_skipped,
                                    .counts = counts,
                                    .step_ns = made > 0 ? steps->total_ns / made : 0,
                                    .drained = run->session->planned.plan->asynchronous &&
                                               !is_drain(run, steps->n_ended)};
}

static pst_status poll_saver(struct run *run, struct pst_error *err)
{
    const struct pst_save_moment moment = moment_of(run);

    return pst_saver_poll(run->saver, &moment, err);
}

/* Is a checkpoint to be saved after the steps that were submitted? With train.drain_every at the
   next drain. */
static bool is_save_due(struct run *run)
{
    struct saving *saving = &run->saving;
    const uint64_t step = run->steps.n_submitted;

    if (run->saver == NULL || step == saving->looked_at) {
        return false;
    }
    saving->due = saving->due || pst_saver_is_due(run->saver, step);
    return (saving->due || pst_exec_wishes(run->exec) > saving->n_wishes) &&
           (run->session->planned.plan->drain_every == 0 || is_drain(run, step));
}

/* Nothing is in flight. Not after a step without an update: the next one will do. */
static pst_status save_checkpoint(struct run *run, struct pst_error *err)
{
    const struct pst_save_moment moment = moment_of(run);
    struct saving *saving = &run->saving;
    const uint64_t wishes = pst_exec_wishes(run->exec);
    const bool must = wishes > saving->n_wishes;

    saving->looked_at = run->steps.n_ended;
    if (run->steps.n_skipped > 0) {
        return PST_OK;
    }
    saving->due = false;
    saving->n_wishes = wishes;
    return pst_saver_save(run->saver, &moment, must, err);
}

/* Where the run ends, whatever its last step was. */
static pst_status save_last(struct run *run, struct pst_error *err)
{
    const struct pst_save_moment moment = moment_of(run);

    return run->steps.n_ended > pst_saver_last(run->saver)
               ? pst_saver_save(run->saver, &moment, true, err)
               : PST_OK;
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Returns the part of the peak FLOP/s that a step of `ns` has used; NaN: the peak is not known. */
static double utilization(const struct run *run, uint64_t ns)
{
    const double most = run->peak_flops * (double)ns / 1e9;

    return most > 0 ? run->step_flops / most : NAN;
}

static pst_status collect(struct run *run, struct pst_error *err)
{
    struct steps *steps = &run->steps;
    uint64_t step = steps->n_ended;
    struct pst_step_report report = {
        .step = step + 1,
        .samples = run->batch / run->session->graph->slices,
        .tokens = run->batch * run->shape.rows,
        .peak_bytes = run->peak_bytes,
        .lr = pst_learning_rate(&run->job->training->loop, step),
        .scale = emulated_scale(run),
    };
    pst_status status = pst_exec_collect(run->exec, &report.result, err);

    if (status != PST_OK) {
        return status;
    }
    if (pst_session_has_no_data(run->session)) {
        report.result.loss = report.result.grad_norm = NAN;
        report.result.ns = (uint64_t)((double)report.result.ns / run->emulation.scale);
    }
    report.mfu = utilization(run, report.result.ns);
    steps->n_skipped = report.result.skipped ? steps->n_skipped + 1 : 0;
    steps->all_skipped += report.result.skipped;
    if (steps->n_skipped > SKIP_LIMIT) {
        return pst_fail(err, PST_ERR_CANCELLED, "run.non-finite",
                        "step %llu: loss or gradient is not finite for the %uth time in a row; "
                        "lower train.lr or set train.clip",
                        (unsigned long long)step + 1, steps->n_skipped);
    }
    if (run->prefetch != NULL) {
        pst_prefetch_release(run->prefetch);
    }
    steps->ns[step - steps->first] = report.result.ns;
    steps->total_ns += report.result.ns;
    steps->n_ended++;
    steps->first_loss = step == steps->first ? report.result.loss : steps->first_loss;
    steps->final_loss = report.result.loss;
    if (run->listener->step != NULL) {
        run->listener->step(run->listener->context, &report);
    }
    return run->saver != NULL ? poll_saver(run, err) : PST_OK;
}

/* Runs to step `end`, or to the end of what is in flight once the run is told to stop or a
   checkpoint is due. */
static pst_status run_to_step(struct run *run, uint64_t end, struct pst_error *err)
{
    pst_status status = PST_OK;

    while (status == PST_OK) {
        bool more = run->steps.n_submitted < end && !is_told_to_stop(run) && !is_save_due(run);

        if (more && pst_exec_in_flight(run->exec) < IN_FLIGHT) {
            status = submit_step(run, err);
            continue;
        }
        if (!more) {
            pst_exec_drain(run->exec);
        }
        if (pst_exec_in_flight(run->exec) > 0) {
            status = collect(run, err);
        } else {
            break;
        }
    }
    return status;
}

/* What was trained before a failure is sound. Steps before a batch that cannot be read end, and are
   saved; a save that is being written ends, and tells of its own failure unless that is `why` the
   run fails. Processes are told to stop at once by the one that fails: they save nothing together.
 */
static void save_what_was_trained(struct run *run, const struct pst_error *why)
{
    struct pst_error err = {0};
    pst_status status = PST_OK;

    if (run->saver == NULL || run->session->team.ops != NULL) {
        return;
    }
    if (run->starved) {
        pst_exec_drain(run->exec);
        while (status == PST_OK && pst_exec_in_flight(run->exec) > 0) {
            status = collect(run, &err);
        }
        PST_TRY(status, save_last(run, &err));
    }
    PST_TRY(status, pst_saver_finish(run->saver, &err));
    PST_TRY(status, pst_saver_lost(run->saver, &err));
    if (status != PST_OK && (why == NULL || strcmp(why->kind, err.kind) != 0)) {
        pst_log(PST_LOG_ERROR, "checkpoint", "the trained weights were not saved in %s: %s",
                run->job->training->checkpoint.folder, err.message);
    }
}

static pst_status loop_steps(struct run *run, struct pst_error *err)
{
    uint64_t steps = (uint64_t)run->job->training->loop.steps;
    uint64_t every = evaluates(run) ? (uint64_t)run->job->training->loop.eval_every : 0;
    double loss;
    pst_status status = PST_OK;

    while (status == PST_OK && run->steps.n_ended < steps && !is_told_to_stop(run)) {
        uint64_t end = every > 0 ? (run->steps.n_ended / every + 1) * every : steps;

        status = run_to_step(run, end < steps ? end : steps, err);
        if (status == PST_OK && run->steps.n_ended < steps && is_save_due(run)) {
            status = save_checkpoint(run, err);
        }
        if (status == PST_OK && run->steps.n_ended == end && end < steps && !is_told_to_stop(run)) {
            status = evaluate(run, &loss, err);
        }
    }
    return status == PST_OK && run->saver != NULL ? save_last(run, err) : status;
}

/* Waits for the last save. One that failed does not keep the run from reporting what it trained:
   end_of_run tells of it. */
static pst_status finish_saving(struct run *run, struct pst_error *err)
{
    pst_status status = run->saver == NULL ? PST_OK : pst_saver_finish(run->saver, err);

    return status != PST_OK && pst_saver_lost(run->saver, NULL) != PST_OK ? PST_OK : status;
}

/* The outcome of a run that has reported its results, with its trace written so: the state of its
   end is saved, or it fails. A hint to resume is given only where there is a checkpoint to resume.
 */
static pst_status end_of_run(const struct run *run, pst_status status, struct pst_error *err)
{
    const bool lost = run->saver != NULL && pst_saver_lost(run->saver, NULL) != PST_OK;
    uint64_t step;

    if (lost) {
        status = pst_saver_lost(run->saver, err);
    } else if (status == PST_OK && pst_stop_requested()) {
        status = pst_stop_fail(err);
    }
    if (status != PST_OK && run->saver != NULL && pst_team_is_first(&run->session->team) &&
        pst_saver_can_resume(run->saver, &step)) {
        if (lost || step < run->steps.n_ended) {
            pst_error_hint(err, "--resume auto resumes after step %llu", (unsigned long long)step);
        } else {
            pst_error_hint(err, "--resume auto resumes from there");
        }
    }
    return status;
}

static pst_status write_trace(const struct run *run, struct pst_error *err)
{
    const struct pst_train_listener *listener = run->listener;
    pst_status status = run->timeline == NULL || listener->trace == NULL
                            ? PST_OK
                            : listener->trace(listener->context, run->timeline, err);

    if (err != NULL && status == PST_ERR_IO) {
        err->exit_code = 1; /* the run was made; only its trace is lost */
    }
    return status;
}

/* Evaluates and generates text after the last step. */
static pst_status conclude(struct run *run, struct pst_error *err)
{
    struct pst_generate generate = {
        .exec = run->exec,
        .graph = pst_session_eval_graph(run->session),
        .shape = &run->eval.shape,
        .tokenizer = run->data == NULL ? run->tokenizer : pst_data_tokenizer(run->data),
        .samples = run->eval.batch,
        .kept = generates(run) ? kept_samples(run) : 0,
        .seed = (uint64_t)run->job->train.seed,
        .temperature = run->job->training->loop.temperature,
        .top_k = (uint32_t)run->job->training->loop.top_k,
        .prompt = run->job->training->loop.prompt,
        .length = (uint64_t)run->job->training->loop.sample,
    };
    pst_status status = PST_OK;

    if (evaluates(run)) {
        status = evaluate(run, &run->eval.loss, err);
    }
    if (status == PST_OK && generates(run)) {
        status = pst_generate_text(&generate, &run->sample, err);
    }
    return status;
}

/* Per step: what each device offloaded, and how long its passes stood still for copies. *ret_any:
   something is offloaded. */
static pst_status count_copies(const struct run *run, uint64_t *bytes, uint64_t *stall_ns,
                               bool *ret_any, struct pst_error *err)
{
    const struct pst_plan *plan = run->session->planned.plan;
    double scale = pst_session_has_no_data(run->session) ? run->emulation.scale : 1;
    const uint64_t made = run->steps.n_ended - run->steps.first;
    bool any = false;

    for (uint32_t rank = 0; rank < plan->n_devices && made > 0; rank++) {
        struct pst_exec_copies copied;
        pst_status status = pst_exec_copied(run->exec, rank, &copied, err);

        if (status != PST_OK) {
            return status;
        }
        bytes[rank] = copied.bytes[0] / made;
        stall_ns[rank] = (uint64_t)((double)(copied.stall_ns / made) / scale);
        any = any || bytes[rank] > 0;
    }
    *ret_any = any;
    return PST_OK;
}

static uint64_t find_median(uint64_t *values, uint64_t n)
{
    if (n == 0) {
        return 0;
    }
    qsort(values, n, sizeof *values, pst_by_number);
    return n % 2 == 1 ? values[n / 2] : values[n / 2 - 1] / 2 + values[n / 2] / 2;
}

/* The median of the steps, as predicted steps are meant: where the pipeline runs empty every so
   many steps, of the means of as many, for one of them is longer. Overwrites steps->ns. */
static uint64_t usual_step_ns(struct steps *steps, uint64_t every)
{
    const uint64_t made = steps->n_ended - steps->first;
    uint64_t n = 0;

    if (every < 2 || made < every) {
        return find_median(steps->ns, made);
    }
    for (uint64_t first = 0; first + every <= made; first += every) {
        uint64_t sum = 0;

        for (uint64_t i = first; i < first + every; i++) {
            sum += steps->ns[i];
        }
        steps->ns[n++] = sum / every;
    }
    return find_median(steps->ns, n);
}

/* Gathers the records of all ranks; makes the timeline on the first process. */
static pst_status gather_records(struct run *run, struct pst_error *err)
{
    double scale = run->emulation.scale > 0 ? run->emulation.scale : 1;
    pst_status status = pst_recorder_gather(run->recorder, run->exec, err);

    if (status != PST_OK || !pst_team_is_first(&run->session->team) ||
        pst_recorder_is_empty(run->recorder)) {
        return status;
    }
    return pst_run_timeline(run->recorder, scale, &run->timeline, err);
}

/* Per device; free() it. NULL: the last steps were not made. */
static struct pst_usage *usage_of(const struct run *run, uint64_t *ret_steps)
{
    const uint64_t asked = (uint64_t)run->job->training->output.trace_steps;
    const uint64_t made = run->steps.n_ended - run->steps.first;
    struct pst_usage *usage;

    if (run->timeline == NULL) {
        return NULL;
    }
    usage = pst_alloc(run->session->planned.plan->n_devices, sizeof *usage);
    for (uint32_t rank = 0; rank < run->session->planned.plan->n_devices; rank++) {
        usage[rank] = pst_timeline_usage(run->timeline, rank);
    }
    *ret_steps = asked < made ? asked : made;
    return usage;
}

static pst_status report_run(struct run *run, uint64_t total_ns, struct pst_error *err)
{
    const struct evaluation *eval = &run->eval;
    uint32_t n = run->session->planned.plan->n_devices;
    struct pst_usage *usage;
    uint64_t *measured = pst_alloc(4 * (size_t)n, sizeof *measured);
    uint64_t *predicted = measured + n, *copied = predicted + n, *stalled = copied + n;
    bool copies = false;
    pst_status status;
    struct pst_run_report end = {
        .steps = run->steps.n_ended - run->steps.first,
        .first_step = run->steps.first,
        .skipped = run->steps.all_skipped,
        .tokens_per_step = run->batch * run->shape.rows,
        .total_ns = total_ns,
        .first_loss = run->steps.first_loss,
        .final_loss = run->steps.n_ended == run->steps.first ? NAN : run->steps.final_loss,
        .eval_loss = eval->loss,
        .n_devices = n,
        .peak_bytes = measured,
        .predicted_peak_bytes = predicted,
        .predicted_step_ns = run->session->here_ns,
        .sample = run->sample,
        .accuracy = eval->n_targets == 0 ? NAN : (double)eval->n_right / (double)eval->n_targets,
        .eval_samples = eval->n_samples,
        .scale = emulated_scale(run),
        .signal = pst_stop_signal(),
    };

    status = count_copies(run, copied, stalled, &copies, err);
    PST_TRY(status, pst_exec_measured_peaks(run->exec, measured, err));
    if (status != PST_OK) {
        free(measured);
        return status;
    }
    end.copy_bytes = copies ? copied : NULL;
    end.copy_stall_ns = copies ? stalled : NULL;
    end.step_ns = usual_step_ns(&run->steps, run->session->planned.plan->drain_every);
    end.mfu = utilization(run, end.step_ns);
    end.usage = usage = usage_of(run, &end.usage_steps);
    for (uint32_t rank = 0; rank < n; rank++) {
        predicted[rank] = pst_session_peak(run->session, rank);
    }
    if (run->listener->done != NULL) {
        run->listener->done(run->listener->context, &end);
    }
    free(usage);
    free(measured);
    return PST_OK;
}

pst_status pst_train_run(struct pst_session *session, const struct pst_data *data,
                         const struct pst_resume_request *resume,
                         const struct pst_train_listener *listener, struct pst_error *err)
{
    struct run run = {.session = session,
                      .job = session->job,
                      .listener = listener,
                      .resume = resume,
                      .data = data,
                      .eval.loss = NAN};
    uint64_t begin = pst_now_ns();
    pst_status status;

    pst_doing("training", "the model");
    status = prepare(&run, err);
    PST_TRY(status, pst_exec_meet(run.exec, err));
    if (status == PST_OK) {
        pst_stop_grace(PST_STOP_ORDERLY);
        status = loop_steps(&run, err);
        if (err != NULL && (status == PST_ERR_DEVICE || status == PST_ERR_IO)) {
            err->exit_code = 1; /* the machine failed the run, not the request */
        }
        PST_TRY(status, finish_saving(&run, err)); /* before an evaluation, which may fail */
        PST_TRY(status, is_told_to_stop(&run) ? PST_OK : conclude(&run, err));
        if (status != PST_OK) {
            save_what_was_trained(&run, err);
        }
        pst_stop_grace(status == PST_OK && !pst_stop_requested() ? PST_STOP_USUAL_MS
                                                                 : PST_STOP_REPORT_MS);
    }
    if (run.exec != NULL && is_told_to_stop(&run)) {
        pst_stop_note(pst_exec_told(run.exec));
    }
    PST_TRY(status, gather_records(&run, err));
    PST_TRY(status, report_run(&run, pst_now_ns() - begin, err));
    PST_TRY(status, end_of_run(&run, write_trace(&run, err), err));
    pst_saver_destroy(run.saver);
    pst_exec_destroy(run.exec);
    pst_prefetch_destroy(run.prefetch);
    pst_timeline_destroy(run.timeline);
    pst_recorder_destroy(run.recorder);
    for (uint32_t k = 0; k < PST_MAX_INPUTS; k++) {
        free(run.eval.inputs[k]);
    }
    free(run.steps.ns);
    free(run.eval.logits);
    pst_tokenizer_destroy(run.tokenizer);
    free(run.sample);
    return status;
}
