/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of these sections, of which docs/reference/config.md is made, and the relations between
 * their values.
 */
#include "job/training.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host/plugin_host.h"

#define ROW(section, field, type, initial, range, doc)                                             \
    PST_PARAM(struct pst_job_##section, field, PST_PARAM_##type, initial, range, doc)
#define COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof *(rows)))
#define MEMBER(member)                                                                             \
    .offset = offsetof(struct pst_training, member),                                               \
    .size = sizeof((struct pst_training *)NULL)->member, .training = true
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The kinds that are built in (data/data_kinds.c). */
#define KINDS "text|synthetic|tokens|llmc|megatron|npy|cifar10|cifar100|mnist"

static const struct pst_param data_rows[] = {
    ROW(data, kind, STRING, "text", KINDS,
        "Source of the samples: a format of files, numbers drawn from the seed (synthetic), or the "
        "id of a data plugin, whose parameters are further keys of [data]."),
    ROW(data, path, STRING, "", NULL,
        "File of the data plugin, relative to the config's folder; empty: it is searched for."),
    ROW(data, train, STRING, "", NULL,
        "Files or globs of the training data, separated by ':', relative to the config's folder; a "
        "list of such strings: several sources."),
    ROW(data, weights, STRING, "", NULL,
        "How often a sample comes from each source of `train`, such as [0.7, 0.3]; empty: all "
        "sources are one."),
    ROW(data, valid, STRING, "", NULL,
        "Files of held-out data, as `train`; empty: a part of the training data is held out."),
    ROW(data, valid_fraction, FLOAT, "0.05", "0..0.5",
        "Part of the training data that is held out if `valid` is empty."),
    ROW(data, train_labels, STRING, "", NULL,
        "Files of the labels, sorted and named like those of `train`, for npy and mnist; mnist, if "
        "empty: next to the images."),
    ROW(data, valid_labels, STRING, "", NULL, "The same for `valid`."),
    ROW(data, dtype, ENUM, "uint16", "uint16|uint32", "Type of the tokens of kind tokens."),
    ROW(data, mean, STRING, "", NULL,
        "Mean to subtract from features; one number or one per channel; empty: the usual one of "
        "the format."),
    ROW(data, std, STRING, "", NULL,
        "Standard deviation to divide by; one number or one per channel; empty: the usual one."),
    ROW(data, field, STRING, "text", NULL,
        "Kind text: the member of each line of JSON that has the text, in .jsonl and .ndjson "
        "files, or in all files if this key is set; empty: all files are plain text."),
    ROW(data, tokenizer, STRING, "", NULL,
        "File tokenizer.json that makes tokens of text, relative to the config's folder; empty: "
        "text is read as bytes."),
    ROW(data, seed, INT, "1", "0..", "Seed of the order of the samples."),
};

static const struct pst_param loop_rows[] = {
    ROW(loop, steps, INT, "100", "1..100000000", "Optimizer steps of the run."),
    ROW(loop, lr, FLOAT, "1e-3", "0..", "Highest learning rate."),
    ROW(loop, min_lr, FLOAT, "0", "0..", "Learning rate that the schedule falls to."),
    ROW(loop, beta1, FLOAT, "0.9", "0..1", "Adam: decay of the first moment; below 1."),
    ROW(loop, beta2, FLOAT, "0.95", "0..1", "Adam: decay of the second moment; below 1."),
    ROW(loop, eps, FLOAT, "1e-8", "1e-30..", "Adam: added to the root of the second moment."),
    ROW(loop, momentum, FLOAT, "0.9", "0..1", "Momentum: what stays of the last update; below 1."),
    ROW(loop, schedule, ENUM, "cosine", "constant|cosine|linear|wsd|inverse-sqrt",
        "Learning rate after the warm-up (docs/training.md)."),
    ROW(loop, decay, FLOAT, "0.2", "0..100000000",
        "Schedule wsd: steps at the end in which lr falls; up to 1: that part of the run."),
    ROW(loop, decay_form, ENUM, "linear", "linear|cosine|1-sqrt",
        "Schedule wsd: how lr falls in them."),
    ROW(loop, warmup, INT, "-1", "-1..100000000",
        "Steps over which the learning rate rises from 0; -1: a tenth of the run, at most 100."),
    ROW(loop, ignore_index, INT, "-1", "-2147483648..2147483647",
        "Class of targets without a loss, in addition to -1."),
    ROW(loop, init, STRING, "", NULL,
        "Folder or file of published weights (safetensors) to begin with, relative to the config's "
        "folder; empty: initial values by the seed."),
    ROW(loop, init_type, STRING, "", NULL,
        "Model type of published weights without a config.json, as transformers calls it, such as "
        "llama or gpt2. [model] is trusted for the rest."),
    ROW(loop, init_family, STRING, "", NULL,
        "File that describes the family of published weights (docs/weights.md), relative to the "
        "config's folder; empty: the file that penstock has for the model."),
    ROW(loop, eval_every, INT, "0", "0..100000000",
        "Steps between evaluations on held-out data; 0: one at the end."),
    ROW(loop, eval_batches, INT, "8", "0..1000000",
        "Batches of one evaluation, at most; 0: no evaluation."),
    ROW(loop, sample, INT, "0", "0..1000000", "Tokens of text generated at the end."),
    ROW(loop, prompt, STRING, "", NULL, "Text that the generated text continues."),
    ROW(loop, temperature, FLOAT, "0.8", "0..100",
        "Randomness of the generated text; 0: always the most likely token."),
    ROW(loop, top_k, INT, "0", "0..16777216",
        "Draws each token from the k most likely tokens; 0: from all."),
};

static const struct pst_param checkpoint_rows[] = {
    ROW(checkpoint, folder, STRING, "", NULL,
        "Folder for the checkpoints of this run, relative to the config's folder; the last step is "
        "always saved. Empty: none is saved."),
    ROW(checkpoint, save_every, STRING, "0", "0..",
        "Steps between checkpoints; auto: as few as `save_budget` allows; 0: one at the end."),
    ROW(checkpoint, save_budget, FLOAT, "0.02", "1e-6..1",
        "Part of the time for which saving may block the run with `save_every` = \"auto\"."),
    ROW(checkpoint, mtbf, TIME, "24 h", "1 s..",
        "Mean time between failures of the machine, for Young's interval, which is logged with the "
        "interval of auto."),
    ROW(checkpoint, keep_last, INT, "2", "1..1000000", "Number of newest checkpoints to keep."),
    ROW(checkpoint, keep_every, INT, "0", "0..1000000000000",
        "Also keep every checkpoint of a multiple of this step; 0: none."),
    ROW(checkpoint, verify, ENUM, "sizes", "sizes|full",
        "What is read back before older checkpoints are removed: manifest and sizes, or every "
        "byte."),
    ROW(checkpoint, busy, ENUM, "skip", "skip|wait",
        "If the last checkpoint is still being written: skip the new one, or wait."),
};

static const struct pst_param output_rows[] = {
    ROW(output, log_every, INT, "10", "1..100000000",
        "Steps between progress lines if the output is not a terminal."),
    ROW(output, trace, STRING, "", NULL,
        "File for a trace of the last steps, relative to the config's folder; empty: none."),
    ROW(output, trace_steps, INT, "3", "1..1000",
        "Last steps covered by the trace and the usage report."),
    ROW(output, log, STRING, "", NULL,
        "File to which the run appends its JSON lines, relative to the config's folder; empty: "
        "none."),
    ROW(output, tensorboard, STRING, "", NULL,
        "Folder for an event file that TensorBoard reads, relative to the config's folder; empty: "
        "none."),
};

static const struct pst_job_section sections[] = {
    {"data", data_rows, COUNT(data_rows), MEMBER(data), .paths = WORDS("tokenizer", "path"),
     .names_plugin = "kind", .of_plugins = WORDS("kind", "path", "seed"),
     .path_lists = WORDS("train", "valid", "train_labels", "valid_labels")},
    {"train", loop_rows, COUNT(loop_rows), MEMBER(loop), .paths = WORDS("init", "init_family")},
    {"checkpoint", checkpoint_rows, COUNT(checkpoint_rows), MEMBER(checkpoint),
     .paths = WORDS("folder")},
    {"output", output_rows, COUNT(output_rows), MEMBER(output),
     .paths = WORDS("trace", "log", "tensorboard")},
};

/* Is there a plugin of that name, where data.kind is not built in? Opens nothing. */
static void check_data(const struct pst_job *job, struct pst_report *report)
{
    struct pst_config_node *table = pst_config_get(job->config->root, "data");
    const struct pst_config_node *kind = table == NULL ? NULL : pst_config_get(table, "kind");
    char words[] = KINDS, *save = NULL;
    const char *own[16];
    struct pst_error found;
    uint32_t n = 0;

    for (char *at = strtok_r(words, "|", &save); at != NULL; at = strtok_r(NULL, "|", &save)) {
        own[n++] = at;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(job->training->data.kind, own[i]) == 0) {
            return;
        }
    }
    if (kind != NULL && kind->kind != PST_CONFIG_STRING) {
        pst_report_value(report, "config.value", kind, "\"kind\" in [data] must be a string");
    } else if (kind != NULL && job->training->data.path[0] == '\0' &&
               pst_plugin_is_known("data", kind, job->plugins.path, own, n, &found) != PST_OK) {
        pst_report_merge(report, &found);
    }
}

static void check_loop(const struct pst_job_train *train, struct pst_job_loop *loop,
                       struct pst_config_node *table, struct pst_report *report)
{
    const struct {
        const char *key;
        double value;
    } below[] = {{"label_smoothing", train->label_smoothing},
                 {"momentum", loop->momentum},
                 {"beta1", loop->beta1},
                 {"beta2", loop->beta2}};

    if (loop->warmup < 0) {
        loop->warmup = loop->steps / 10 < 100 ? loop->steps / 10 : 100;
    }
    if (loop->warmup > loop->steps) {
        pst_report_value(report, "config.value", pst_job_blame(table, "warmup", "steps"),
                         "\"warmup\" in [train] is %" PRId64 ", more than the run's %" PRId64
                         " steps",
                         loop->warmup, loop->steps);
    }
    if (loop->min_lr > loop->lr) {
        pst_report_value(report, "config.value", pst_job_blame(table, "min_lr", "lr"),
                         "\"min_lr\" in [train] is %g, more than lr = %g", loop->min_lr, loop->lr);
    }
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        if (below[i].value >= 1) {
            pst_report_value(report, "config.value",
                             pst_job_blame(table, below[i].key, below[i].key),
                             "\"%s\" in [train] must be below 1", below[i].key);
        }
    }
}

/* save_every is a number of steps, or auto; without a folder no key does anything. */
static void check_checkpoint(struct pst_job_checkpoint *checkpoint, struct pst_config_node *table,
                             struct pst_report *report)
{
    static const char *const of_auto[] = {"save_budget", "mtbf"};
    const char *text = checkpoint->save_every;

    if (table != NULL && table->n_children > 0 && pst_config_get(table, "folder") == NULL) {
        pst_report_value(report, "config.value", table->children[0],
                         "\"%s\" in [checkpoint] does nothing without \"folder\", which says "
                         "where checkpoints go; folder = \"\" saves none",
                         table->children[0]->key);
    }
    checkpoint->automatic = strcmp(text, "auto") == 0;
    for (size_t i = 0; i < 2 && table != NULL && !checkpoint->automatic; i++) {
        struct pst_config_node *node = pst_config_get(table, of_auto[i]);

        if (node != NULL) {
            pst_report_value(report, "config.value", node,
                             "\"%s\" in [checkpoint] does nothing without save_every = \"auto\"",
                             of_auto[i]);
        }
    }
    if (checkpoint->automatic ||
        (text[0] != '\0' && strlen(text) <= 12 && strspn(text, "0123456789") == strlen(text))) {
        checkpoint->every = checkpoint->automatic ? 0 : strtoull(text, NULL, 10);
        return;
    }
    pst_report_value(report, "config.value", pst_job_blame(table, "save_every", "save_every"),
                     "\"save_every\" in [checkpoint] must be a number of steps from 0 on, or "
                     "\"auto\", not \"%s\"",
                     text);
}

static void check_training(struct pst_job *job, struct pst_report *report)
{
    struct pst_config_node *root = job->config->root;

    check_data(job, report);
    check_loop(&job->train, &job->training->loop, pst_config_get(root, "train"), report);
    check_checkpoint(&job->training->checkpoint, pst_config_get(root, "checkpoint"), report);
}

const struct pst_job_training pst_training_rows = {sections, COUNT(sections),
                                                   sizeof(struct pst_training), check_training};
