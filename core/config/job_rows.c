/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of the sections that belong to the core; docs/reference/config.md is made of them.
 */
#include "config/job.h"

#define ROW(section, field, type, initial, range, doc)                                             \
    PST_PARAM(struct pst_job_##section, field, PST_PARAM_##type, initial, range, doc)
#define COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof *(rows)))

static const struct pst_param data_rows[] = {
    ROW(data, kind, ENUM, "text", "text|synthetic|tokens|llmc|megatron|npy|cifar10|cifar100|mnist",
        "Where samples come from: a format of files, or numbers drawn from the seed (synthetic)."),
    ROW(data, train, STRING, "", NULL,
        "Files or globs of the training data, separated by ':', relative to the config's folder; a "
        "list of such strings: several sources."),
    ROW(data, weights, STRING, "", NULL,
        "How often a sample comes from each source of `train`, such as [0.7, 0.3]; empty: all "
        "sources are one."),
    ROW(data, valid, STRING, "", NULL,
        "The same as `train` for held-out data; empty: a part of the training data is held out."),
    ROW(data, valid_fraction, FLOAT, "0.05", "0..0.5",
        "Part of the training data that is held out where `valid` is empty."),
    ROW(data, train_labels, STRING, "", NULL,
        "Files of the labels, sorted and named as those of `train`: npy; mnist, where empty: "
        "beside "
        "the images."),
    ROW(data, valid_labels, STRING, "", NULL, "The same for `valid`."),
    ROW(data, dtype, ENUM, "uint16", "uint16|uint32", "Type of the tokens of kind tokens."),
    ROW(data, mean, STRING, "", NULL,
        "What is subtracted from features, a number or a list of one for each channel; empty: what "
        "is usual for the format."),
    ROW(data, std, STRING, "", NULL, "What features are divided by then; likewise."),
    ROW(data, field, STRING, "text", NULL,
        "Kind text: the member that is the text of each line of JSON, in files that end in .jsonl "
        "or .ndjson; where it is written, in all files; empty: files are text, whatever they "
        "hold."),
    ROW(data, tokenizer, STRING, "", NULL,
        "A tokenizer.json, by which text becomes tokens, relative to the config's folder; empty: "
        "text "
        "is read as bytes."),
    ROW(data, seed, INT, "1", "0..", "Seed of the order of the samples."),
};

static const struct pst_param train_rows[] = {
    ROW(train, steps, INT, "100", "1..100000000", "Optimizer steps of the run."),
    ROW(train, batch, INT, "32", "1..1048576", "Samples of one step."),
    ROW(train, microbatch, INT, "4", "1..1048576",
        "Samples that a stage processes at a time; must divide `batch`."),
    ROW(train, degrees, STRING, "1", "1..",
        "Replica counts that a stage may have, such as [1, 2, 4]; the first is for partitioners "
        "that do not choose."),
    ROW(train, loss, ENUM, "auto", "auto|cross-entropy|mse|bce",
        "Of a model that brings none (onnx): of classes, of numbers, or of probabilities from "
        "logits; auto: the model's own, else cross-entropy."),
    ROW(train, optimizer, ENUM, "adamw", "sgd|momentum|adam|adamw|muon",
        "Rule of the update; muon: of the matrices of blocks, and adamw of all else."),
    ROW(train, lr, FLOAT, "1e-3", "0..", "Highest learning rate."),
    ROW(train, min_lr, FLOAT, "0", "0..", "Learning rate that the schedule falls to."),
    ROW(train, beta1, FLOAT, "0.9", "0..1", "Adam: decay of the first moment; below 1."),
    ROW(train, beta2, FLOAT, "0.95", "0..1", "Adam: decay of the second moment; below 1."),
    ROW(train, eps, FLOAT, "1e-8", "1e-30..", "Adam: added to the root of the second moment."),
    ROW(train, momentum, FLOAT, "0.9", "0..1", "Momentum: what stays of the last update; below 1."),
    ROW(train, weight_decay, FLOAT, "0.1", "0..", "Part of a weight that decays per unit of lr."),
    ROW(train, no_decay, STRING, "auto", NULL,
        "Patterns of names of parameters whose weights do not decay, such as [\"*.bias\", "
        "\"ln_*\"]; auto: norms and biases; empty: none."),
    ROW(train, muon_factor, ENUM, "match-adamw", "match-adamw|original",
        "Muon: what lr is multiplied by for a matrix of so many inputs and outputs "
        "(docs/training.md)."),
    ROW(train, schedule, ENUM, "cosine", "constant|cosine|linear|wsd|inverse-sqrt",
        "Learning rate after the warm-up (docs/training.md)."),
    ROW(train, decay, FLOAT, "0.2", "0..100000000",
        "Schedule wsd: steps at the end in which lr falls; up to 1: that part of the run."),
    ROW(train, decay_form, ENUM, "linear", "linear|cosine|1-sqrt",
        "Schedule wsd: how lr falls in them."),
    ROW(train, warmup, INT, "-1", "-1..100000000",
        "Steps over which the learning rate rises from 0; -1: a tenth of the run, at most 100."),
    ROW(train, clip, FLOAT, "1.0", "0..", "Largest norm of all gradients together; 0: no limit."),
    ROW(train, label_smoothing, FLOAT, "0", "0..1",
        "Part of a target that all classes share in the cross-entropy; below 1."),
    ROW(train, z_loss, FLOAT, "0", "0..",
        "Factor of the squared logarithm of the softmax's sum, which is added to the loss."),
    ROW(train, loss_over, ENUM, "sample", "sample|token",
        "What the cross-entropy of a step is the mean over: the means of its samples, or all its "
        "targets that count (docs/training.md)."),
    ROW(train, ignore_index, INT, "-1", "-2147483648..2147483647",
        "Class of targets that count nothing, beside -1."),
    ROW(train, seed, INT, "1", "0..", "Seed of the weights and of dropout."),
    ROW(train, init, STRING, "", NULL,
        "Folder or file of published weights (safetensors) to begin with, relative to the config's "
        "folder; empty: initial values by the seed."),
    ROW(train, init_type, STRING, "", NULL,
        "Model type of published weights without a config.json, as transformers calls it, such as "
        "llama or gpt2. [model] is trusted for the rest."),
    ROW(train, on_non_finite, ENUM, "stop", "stop|skip",
        "What a loss or gradient that is not finite does: end the run, or leave out the update, "
        "which then does not count."),
    ROW(train, eval_every, INT, "0", "0..100000000",
        "Steps between evaluations on held-out data; 0: one at the end."),
    ROW(train, eval_batches, INT, "8", "0..1000000",
        "Batches of one evaluation, at most; 0: no evaluation."),
    ROW(train, sample, INT, "0", "0..1000000", "Characters of text generated at the end."),
    ROW(train, prompt, STRING, "", NULL, "What the generated text starts from."),
    ROW(train, temperature, FLOAT, "0.8", "0..100",
        "How freely the text is drawn; 0: always the likeliest character."),
    ROW(train, top_k, INT, "0", "0..16777216",
        "The text is drawn from the likeliest so many characters; 0: from all."),
    ROW(train, drain_every, INT, "0", "0..100000000",
        "Asynchronous schedules: steps between drains of the pipeline; 0: one at the end."),
};

static const struct pst_param group_rows[] = {
    ROW(group, match, STRING, "", NULL, "Names of parameters, or patterns of them."),
    ROW(group, lr_scale, FLOAT, "1", "0..", "Their learning rate is `lr` times this."),
    ROW(group, weight_decay, FLOAT, "-1", "-1..",
        "Their weight decay, whatever `no_decay` says; -1: as [train] has it."),
    ROW(group, optimizer, ENUM, "train", "train|adamw",
        "Their rule of the update: that of [train], or with muon adamw."),
};

static struct pst_param run_rows[] = {
    /* The first two have the defaults that the program tells. */
    ROW(run, device, STRING, "", NULL, "Device backend."),
    ROW(run, transport, STRING, "", NULL,
        "What carries tensors between devices; under a launcher of several processes the default "
        "is mpi, or nccl between GPUs."),
    ROW(run, threads_per_device, INT, "1", "1..1024", "Threads that compute for one device."),
    ROW(run, kernels, STRING, "auto", NULL,
        "Kernels of the backend: auto; cpu: onednn, reference; cuda: simple, unordered, "
        "fused_sums, timed, unpaired, joined by +."),
    ROW(run, share, INT, "0", "0..1024",
        "Ranks on one GPU, each with a part of it; 0: rank r has GPU r modulo their number."),
    ROW(run, dtype, ENUM, "f32", "f32|bf16|tf32", "Type of activations and gradients."),
    ROW(run, graphs, ENUM, "auto", "auto|on|off",
        "Whether the kernels of a pass are launched as one CUDA graph; auto: where they are "
        "predicted to take less than 20 us each."),
    ROW(run, p2p, ENUM, "auto", "auto|ordered|edge",
        "Transport nccl: one queue for all transfers of a device, or one for each device that it "
        "sends to and each that it gets from; auto: one where it is proven to do."),
    ROW(run, stall_limit, TIME, "10 min", "100 ms..",
        "The run is ended when no device has moved for this long."),
    ROW(run, host_bandwidth, RATE, "0", NULL,
        "What is offloaded goes to host memory, and comes back, at most so fast; 0: as [cluster] "
        "says."),
    ROW(run, host_memory, BYTES, "0", NULL,
        "Host memory for what all devices offload, an equal part for each; plans keep to it. 0: "
        "what the machine has left."),
    ROW(run, copy_check, BOOL, "false", NULL,
        "Whether what comes back from host memory is compared with what went there."),
    ROW(run, emulated_scale, FLOAT, "0", "0..1e6",
        "Emulated devices: how many times slower than described they run; 0: as much as this "
        "machine needs."),
    ROW(run, plan, STRING, "", NULL,
        "Plan file to run instead of searching, relative to the config's folder."),
};

static const struct pst_param profile_rows[] = {
    ROW(profile, file, STRING, "", NULL,
        "Measured times (penstock profile -o FILE) in the place of those that [cluster] makes, "
        "relative to the config's folder; empty: none."),
    ROW(profile, measure, ENUM, "auto", "auto|never",
        "Without a file, and where [cluster] says nothing about the speed of devices: whether "
        "operators are measured on this machine at first use."),
};

static const struct pst_param checkpoint_rows[] = {
    ROW(checkpoint, folder, STRING, "", NULL,
        "Folder for the checkpoints of this run, relative to the config's folder; one is saved at "
        "the "
        "end, too. Empty: none is saved."),
    ROW(checkpoint, save_every, STRING, "0", "0..",
        "Steps between checkpoints; auto: so many that saving blocks the run for `save_budget` of "
        "its time; 0: one at the end."),
    ROW(checkpoint, save_budget, FLOAT, "0.02", "1e-6..1",
        "Part of the time for which saving may block the run with `save_every` = \"auto\"."),
    ROW(checkpoint, mtbf, TIME, "24 h", "1 s..",
        "Mean time between failures of the machine: for Young's interval, which is told beside "
        "that of auto."),
    ROW(checkpoint, keep_last, INT, "2", "1..1000000", "The last so many checkpoints are kept."),
    ROW(checkpoint, keep_every, INT, "0", "0..1000000000000",
        "And those of every so many steps, for good; 0: no others."),
    ROW(checkpoint, verify, ENUM, "sizes", "sizes|full",
        "What is read back before older checkpoints go: manifest and sizes, or every byte."),
    ROW(checkpoint, busy, ENUM, "skip", "skip|wait",
        "Where the last one is still being written when the next is due: leave that out, or "
        "wait."),
};

static const struct pst_param output_rows[] = {
    ROW(output, log_every, INT, "10", "1..100000000",
        "Steps between progress lines where the output is not a terminal."),
    ROW(output, trace, STRING, "", NULL,
        "File for a trace of the last steps, relative to the config's folder; empty: none."),
    ROW(output, trace_steps, INT, "3", "1..1000",
        "Steps that the trace shows and that the usage of devices is told of."),
    ROW(output, log, STRING, "", NULL,
        "File to which the run appends its JSON lines, relative to the config's folder; empty: "
        "none."),
    ROW(output, tensorboard, STRING, "", NULL,
        "Folder for an event file that TensorBoard reads, relative to the config's folder; empty: "
        "none."),
};

static const struct pst_param plugins_rows[] = {
    ROW(plugins, isolate, ENUM, "auto", "auto|always|never",
        "Whether strategies, and a plugin's model, run in a process of their own; auto: if one of "
        "them is not on the list of what penstock came with."),
    ROW(plugins, time_limit, TIME, "10 min", NULL, "Time that a search may take; 0: no limit."),
    ROW(plugins, memory_limit, BYTES, "0", NULL,
        "Address space of that process; 0: 80 % of the machine's memory."),
    ROW(plugins, path, STRING, "", NULL,
        "Folders in which plugins are looked for first, relative to the config's folder: one, or a "
        "list."),
};

const struct pst_job_section pst_job_sections[] = {
    {"data", data_rows, COUNT(data_rows), offsetof(struct pst_job, data)},
    {"train", train_rows, COUNT(train_rows), offsetof(struct pst_job, train)},
    {"train.group", group_rows, COUNT(group_rows), offsetof(struct pst_job, groups)},
    {"run", run_rows, COUNT(run_rows), offsetof(struct pst_job, run)},
    {"profile", profile_rows, COUNT(profile_rows), offsetof(struct pst_job, profile)},
    {"checkpoint", checkpoint_rows, COUNT(checkpoint_rows), offsetof(struct pst_job, checkpoint)},
    {"output", output_rows, COUNT(output_rows), offsetof(struct pst_job, output)},
    {"plugins", plugins_rows, COUNT(plugins_rows), offsetof(struct pst_job, plugins)},
};
const uint32_t pst_job_n_sections = COUNT(pst_job_sections);

void pst_job_tell_defaults(const char *device, const char *transport)
{
    run_rows[0].initial = device;
    run_rows[1].initial = transport;
}
