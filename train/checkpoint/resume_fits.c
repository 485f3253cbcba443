/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a checkpoint one for this job? The model's names and shapes are compared first, then what a
 * run is not to change unasked, then what changes bits and nothing else.
 */
#include "checkpoint/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/saver_impl.h"
#include "config/config.h"

enum { MOST_SHOWN = 10 };

struct fitting {
    const struct pst_checkpoint *checkpoint;
    const struct pst_graph *graph;
    const struct pst_job *job;
    bool slots;  /* the optimizer is the same */
    bool *known; /* per tensor of the checkpoint: the model has it */
    uint32_t n_differences;
    uint32_t n_older, n_dropped; /* older weights that only the plan, only the checkpoint has */
    uint32_t differs;            /* 1 + the parameter that was told of last; 0: none */
    char first[PST_CHECKPOINT_DIFFERENCE];
    struct pst_error *err; /* details: the first ten */
};

static void add_difference(struct fitting *fitting, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_difference(struct fitting *fitting, const char *format, ...)
{
    char text[PST_CHECKPOINT_DIFFERENCE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (fitting->n_differences == 0) {
        snprintf(fitting->first, sizeof fitting->first, "%s", text);
    }
    if (fitting->n_differences++ < MOST_SHOWN) {
        pst_error_detail(fitting->err, "%s\n", text);
    }
}

/* Slots and older versions go with their parameter: what is told of it is not told of them. */
static void compare_value(void *context, const struct pst_state_key *key, uint64_t first,
                          uint64_t elems)
{
    struct fitting *fitting = context;
    const bool follows = key->kind == PST_STATE_SLOT || key->kind == PST_STATE_VERSION;
    const struct pst_checkpoint_tensor *tensor;
    char difference[PST_CHECKPOINT_DIFFERENCE];
    const bool fits =
        pst_checkpoint_has(fitting->checkpoint, fitting->graph, key, elems, &tensor, difference);

    if (first > 0) {
        return; /* which the rank that saves its beginning tells */
    }
    if (tensor != NULL) {
        fitting->known[tensor - fitting->checkpoint->manifest.tensors] = true;
    }
    if (fits || (key->kind == PST_STATE_SLOT && !fitting->slots) ||
        (follows && fitting->differs == key->index + 1)) {
        return;
    }
    if (tensor == NULL && key->kind == PST_STATE_VERSION) {
        fitting->n_older++;
    } else {
        fitting->differs = key->index + 1;
        add_difference(fitting, "%s", difference);
    }
}

/* Finds tensors that only the checkpoint has; counts its versions that are dropped. */
static void compare_others(struct fitting *fitting)
{
    const struct pst_manifest *manifest = &fitting->checkpoint->manifest;

    for (uint32_t i = 0; i < manifest->n_tensors; i++) {
        const char *name = manifest->tensors[i].name;

        if (!fitting->known[i] &&
            (strncmp(name, "param/", 6) == 0 || strncmp(name, "state/", 6) == 0)) {
            add_difference(fitting, "%.300s is only in the checkpoint", name);
        }
        fitting->n_dropped += !fitting->known[i] && strncmp(name, "version/", 8) == 0;
    }
}

static void compare_models(struct fitting *fitting, const struct pst_session *session)
{
    const struct pst_plan *plan = session->planned.plan;
    uint32_t *group_of = pst_alloc(plan->n_devices, sizeof *group_of);

    pst_plan_groups(plan, group_of);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        if (r == 0 ||
            group_of[r] != group_of[r - 1]) { /* all parts have values of the same names */
            pst_exec_state_of(plan, session->planned.programs[r], compare_value, fitting);
        }
    }
    free(group_of);
    compare_others(fitting);
}

/* --- what a run is not to change unasked ------------------------------------------------------ */

static void compare_numbers(struct fitting *fitting, const char *what, uint64_t here,
                            uint64_t there)
{
    if (here != there) {
        add_difference(fitting, "%s is %llu, in the checkpoint %llu", what,
                       (unsigned long long)here, (unsigned long long)there);
    }
}

static void compare_rules(struct fitting *fitting, const struct pst_manifest *here)
{
    const struct pst_manifest *there = &fitting->checkpoint->manifest;

    compare_numbers(fitting, "train.seed", here->seed, there->seed);
    compare_numbers(fitting, "data.seed", here->data_seed, there->data_seed);
    compare_numbers(fitting, "train.batch", here->batch, there->batch);
    if (strcmp(here->optimizer, there->optimizer) != 0) {
        add_difference(fitting, "train.optimizer is %s, in the checkpoint %.64s", here->optimizer,
                       there->optimizer);
    }
    if (fitting->n_differences == 0 && strcmp(here->data_digest, there->data_digest) != 0) {
        add_difference(fitting, "the training data differ");
    }
}

static void warn_of_bits(const struct fitting *fitting, const struct pst_manifest *here)
{
    const struct pst_manifest *there = &fitting->checkpoint->manifest;

    for (uint32_t i = 0; i < PST_NUMERICS; i++) {
        if (strcmp(here->numerics[i], there->numerics[i]) != 0) {
            pst_log(PST_LOG_WARN, "checkpoint", "bits will differ because %s is %.256s, was %.256s",
                    pst_numeric_names[i], here->numerics[i], there->numerics[i]);
        }
    }
    if (strcmp(here->model_digest, there->model_digest) != 0 &&
        strcmp(here->numerics[PST_NUMERIC_DTYPE], there->numerics[PST_NUMERIC_DTYPE]) == 0) {
        pst_log(PST_LOG_WARN, "checkpoint",
                "bits will differ because the model differs in more than its parameters show");
    }
    if (fitting->n_older > 0) {
        pst_log(PST_LOG_WARN, "checkpoint",
                "bits will differ because this plan reads weights of earlier steps, which a "
                "checkpoint of a %.32s plan does not have: the newest weights take their place",
                there->rule);
    } else if (strcmp(here->rule, there->rule) != 0) {
        pst_log(PST_LOG_WARN, "checkpoint",
                "bits will differ because the plan's rule of weight versions is %s, was %.32s",
                here->rule, there->rule);
    } else if (fitting->n_dropped > 0) {
        pst_log(PST_LOG_WARN, "checkpoint",
                "bits will differ because this plan's stages read newer weights: it has fewer or "
                "different stages");
    }
}

/* Returns true if rates depend on the number of steps, once `was`; warm-up defaults to a tenth. */
static bool hangs_on_steps(const struct pst_job *job, long long was)
{
    const struct pst_job_loop *loop = &job->training->loop;

    if (loop->schedule != PST_SCHEDULE_CONSTANT && loop->schedule != PST_SCHEDULE_INVERSE_SQRT) {
        return true;
    }
    return pst_config_get(pst_config_get(job->config->root, "train"), "warmup") == NULL &&
           loop->warmup != (was / 10 < 100 ? was / 10 : 100);
}

static void warn_of_rule(void *context, const struct pst_checkpoint_setting *setting)
{
    const struct fitting *fitting = context;
    static const char *const keys[] = {"lr",          "min_lr",       "schedule", "decay",
                                       "decay_form",  "warmup",       "beta1",    "beta2",
                                       "eps",         "momentum",     "clip",     "weight_decay",
                                       "muon_factor", "no_decay",     "z_loss",   "label_smoothing",
                                       "loss_over",   "ignore_index", "steps"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(setting->key, keys[i]) == 0 &&
            (strcmp(keys[i], "steps") != 0 ||
             hangs_on_steps(fitting->job, strtoll(setting->was, NULL, 10)))) {
            pst_log(PST_LOG_WARN, "checkpoint",
                    "steps from here on differ from those of the checkpoint's run: train.%s is "
                    "%.64s, was %.64s",
                    keys[i], setting->now, setting->was);
        }
    }
}

static pst_status fail_differing(const struct fitting *fitting, const char *what,
                                 struct pst_error *err)
{
    pst_status status =
        pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.mismatch", fitting->checkpoint->path, 0, 0,
                    "the checkpoint is of another %s: %u difference%s, such as: %s", what,
                    fitting->n_differences, fitting->n_differences == 1 ? "" : "s", fitting->first);

    if (err != NULL) {
        snprintf(err->details, sizeof err->details, "%s", fitting->err->details);
    }
    return status;
}

pst_status pst_resume_fits(const struct pst_checkpoint *checkpoint,
                           const struct pst_session *session, uint64_t data_digest,
                           const struct pst_resume_request *request, bool *ret_without_slots,
                           struct pst_error *err)
{
    struct pst_error *found = pst_alloc(1, sizeof *found);
    struct fitting fitting = {
        .checkpoint = checkpoint, .graph = session->graph, .job = session->job, .err = found};
    struct pst_arena arena = {0};
    struct pst_manifest here;
    pst_status status = PST_OK;

    pst_checkpoint_describe(session, data_digest, &arena, &here);
    fitting.slots = strcmp(here.optimizer, checkpoint->manifest.optimizer) == 0;
    fitting.known = pst_alloc(checkpoint->manifest.n_tensors + 1, sizeof *fitting.known);
    *ret_without_slots = !fitting.slots;
    compare_models(&fitting, session);
    if (fitting.n_differences > 0) {
        status = fail_differing(&fitting, "model", err);
    } else {
        compare_rules(&fitting, &here);
        if (fitting.n_differences > 0 && !request->allow_change) {
            status = fail_differing(&fitting, "run", err);
            pst_error_hint(err, "--allow-change resumes with the change");
        }
    }
    if (status == PST_OK && pst_team_is_first(&session->team)) {
        warn_of_bits(&fitting, &here);
        /* rates, and what else makes an update, may change */
        pst_checkpoint_compare(checkpoint, session->job->config, "train", warn_of_rule, &fitting);
    }
    free(fitting.known);
    free(found);
    pst_arena_finish(&arena);
    return status;
}
