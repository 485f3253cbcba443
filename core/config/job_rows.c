/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of the sections that belong to the core; docs/reference/config.md is made of them and of
 * those of the training program.
 */
#include "config/job.h"

#define ROW(section, field, type, initial, range, doc)                                             \
    PST_PARAM(struct pst_job_##section, field, PST_PARAM_##type, initial, range, doc)
#define COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof *(rows)))
#define MEMBER(member)                                                                             \
    .offset = offsetof(struct pst_job, member), .size = sizeof((struct pst_job *)NULL)->member
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct pst_param train_rows[] = {
    ROW(train, batch, INT, "32", "1..1048576", "Samples of one step."),
    ROW(train, microbatch, INT, "4", "1..1048576",
        "Samples that a stage processes at a time; must divide `batch`."),
    ROW(train, degrees, STRING, "1", "1..",
        "Replica counts that a stage may have, such as [1, 2, 4]; the first is for partitioners "
        "that do not choose."),
    ROW(train, loss, ENUM, "auto", "auto|cross-entropy|mse|bce",
        "Loss of an ONNX model: cross-entropy (classes), mse (numbers) or bce (probabilities); "
        "auto: the model's own loss, else cross-entropy."),
    ROW(train, optimizer, ENUM, "adamw", "sgd|momentum|adam|adamw|muon",
        "Optimizer; muon: matrices of blocks by Muon, all other parameters by AdamW."),
    ROW(train, weight_decay, FLOAT, "0.1", "0..", "Part of a weight that decays per unit of lr."),
    ROW(train, no_decay, STRING, "auto", NULL,
        "Patterns of names of parameters whose weights do not decay, such as [\"*.bias\", "
        "\"ln_*\"]; auto: norms and biases; empty: none."),
    ROW(train, muon_factor, ENUM, "match-adamw", "match-adamw|original",
        "Muon: factor of lr, from the matrix's inputs and outputs (docs/training.md)."),
    ROW(train, clip, FLOAT, "1.0", "0..", "Largest norm of all gradients together; 0: no limit."),
    ROW(train, label_smoothing, FLOAT, "0", "0..1",
        "Part of a target that all classes share in the cross-entropy; below 1."),
    ROW(train, z_loss, FLOAT, "0", "0..",
        "Factor of the squared logarithm of the softmax's sum, which is added to the loss."),
    ROW(train, loss_over, ENUM, "sample", "sample|token",
        "Cross-entropy of a step: the mean of the means of its samples, or the mean over all "
        "labelled targets (docs/training.md)."),
    ROW(train, seed, INT, "1", "0..", "Seed of the weights and of dropout."),
    ROW(train, on_non_finite, ENUM, "stop", "stop|skip",
        "If a loss or gradient is not finite: stop the run, or skip the update (it does not count "
        "as one)."),
    ROW(train, drain_every, INT, "0", "0..100000000",
        "Asynchronous schedules: steps between drains of the pipeline; 0: one at the end."),
};

static const struct pst_param parallel_rows[] = {
    ROW(parallel, tensor, STRING, "1", "1..1024",
        "Devices that share each operator (tensor parallelism): linear layers by columns and rows, "
        "attention by heads, experts by columns, vocabularies by rows. Several, such as [1, 2]: "
        "those that a stage may have; the first is for partitioners that do not choose."),
    ROW(parallel, sequence, BOOL, "false", NULL,
        "With tensor > 1: norms, residual sums and dropout are divided by tokens; each part has an "
        "equal share (sequence parallelism)."),
    ROW(parallel, ways, ENUM, "auto", "auto|megatron|ulysses|rows",
        "With tensor > 1, how operators are divided; auto: by columns, rows and heads where their "
        "number is divisible; megatron: the same, and heads must be divisible; rows: linear layers "
        "and all that works token by token by tokens, which must be divisible; weights are whole; "
        "ulysses: the same, and attention by heads, which must be divisible, too "
        "(docs/parallel.md)."),
    ROW(parallel, gathered, ENUM, "replay", "replay|keep",
        "With rows of tokens: what parts put together from them for split layers is gathered again "
        "in the backward pass, unless a memory optimizer keeps it; or kept, unless one recomputes "
        "or offloads it."),
    ROW(parallel, zero, INT, "0", "0..3",
        "1: each replica of a stage updates a piece of the weights, and has the optimizer's state "
        "of that piece alone (ZeRO 1); 2: and accumulates the gradients of that piece alone "
        "(ZeRO 2); 3: and keeps that piece of the weights alone; passes gather the others "
        "(ZeRO 3)."),
    ROW(parallel, prefetch, INT, "1", "0..8",
        "With zero = 3: layers whose weights passes gather ahead of the one that they read, while "
        "they compute. 0: passes wait for every gather, and with zero = 2, too, for every sum of "
        "gradients, at once, which takes the least memory. No effect with zero 0 and 1; with "
        "zero = 2 every value above 0 is 1 (docs/parallel.md)."),
};

static const struct pst_param way_rows[] = {
    ROW(way, match, STRING, "", NULL, "Names of operators, or patterns of them."),
    ROW(way, way, ENUM, "auto", "auto|whole|rows|column|row|heads|vocab|columns|experts",
        "How these operators are divided; auto: as without this table; whole: each part computes "
        "all of them; rows: by tokens, with whole weights; the others are refused where operators "
        "cannot have them (docs/parallel.md)."),
};

static const struct pst_param group_rows[] = {
    ROW(group, match, STRING, "", NULL, "Names of parameters, or patterns of them."),
    ROW(group, lr_scale, FLOAT, "1", "0..", "Factor of `lr` for these parameters."),
    ROW(group, weight_decay, FLOAT, "-1", "-1..",
        "Weight decay of these parameters; overrides `no_decay`; -1: that of [train]."),
    ROW(group, optimizer, ENUM, "train", "train|adamw",
        "Optimizer of these parameters; train: that of [train]; adamw: with muon only."),
};

static struct pst_param run_rows[] = {
    /* The first two have the defaults that the program tells. */
    ROW(run, device, STRING, "", NULL, "Device backend."),
    ROW(run, transport, STRING, "", NULL,
        "Transport of tensors between devices; under a launcher of several processes the default "
        "is mpi, or nccl between GPUs."),
    ROW(run, threads_per_device, INT, "1", "1..1024", "Threads that compute for one device."),
    ROW(run, kernels, STRING, "auto", NULL,
        "Kernels of the backend: auto; cpu: onednn, reference; cuda: simple, unordered, "
        "fused_sums, timed, unpaired, joined by +."),
    ROW(run, share, INT, "0", "0..1024",
        "Ranks on one GPU, each with a part of it; 0: rank r has GPU r modulo their number."),
    ROW(run, dtype, ENUM, "f32", "f32|bf16|tf32", "Type of activations and gradients."),
    ROW(run, graphs, ENUM, "auto", "auto|on|off",
        "Launch the kernels of a pass as one CUDA graph; auto: if they are predicted to run for "
        "less than 20 us each."),
    ROW(run, p2p, ENUM, "auto", "auto|ordered|edge",
        "Transport nccl: one queue for all transfers of a device, or one for each device that it "
        "sends to or receives from; auto: one queue if the plan is proven to run with it."),
    ROW(run, stall_limit, TIME, "10 min", "100 ms..",
        "Time without progress on any device after which the run ends."),
    ROW(run, host_bandwidth, RATE, "0", NULL,
        "Bandwidth limit of offload copies, in each direction; 0: that of [cluster]."),
    ROW(run, host_memory, BYTES, "0", NULL,
        "Maximum host memory for offloading, divided equally among the devices; 0: the free "
        "memory of the machine."),
    ROW(run, copy_check, BOOL, "false", NULL,
        "Compare bytes that return from host memory with the bytes that were offloaded."),
    ROW(run, emulated_scale, FLOAT, "0", "0..1e6",
        "Emulated devices: factor by which they run slower than described; 0: as this machine "
        "needs."),
    ROW(run, plan, STRING, "", NULL,
        "Plan file to run instead of searching, relative to the config's folder."),
};

static const struct pst_param profile_rows[] = {
    ROW(profile, file, STRING, "", NULL,
        "Measured times (penstock profile -o FILE) instead of times computed from [cluster], "
        "relative to the config's folder; empty: none."),
    ROW(profile, measure, ENUM, "auto", "auto|never",
        "auto: measures operators on this machine at first use, if there is no file and [cluster] "
        "has no speed of devices."),
};

static const struct pst_param plugins_rows[] = {
    ROW(plugins, isolate, ENUM, "auto", "auto|always|never",
        "Run strategies, and a plugin's model, in a separate process; auto: if one of them is not "
        "shipped with penstock. Data plugins and operators are never isolated; always: refuses "
        "those that are not shipped."),
    ROW(plugins, time_limit, TIME, "10 min", NULL, "Time that a search may take; 0: no limit."),
    ROW(plugins, memory_limit, BYTES, "0", NULL,
        "Address space of that process; 0: 80 % of the machine's memory."),
    ROW(plugins, path, STRING, "", NULL,
        "Folders that are searched first for plugins, relative to the config's folder: one, or a "
        "list."),
};

struct pst_job_section pst_job_sections[PST_MAX_SECTIONS + 1] = {
    {"train", train_rows, COUNT(train_rows), MEMBER(train)},
    {"train.group", group_rows, COUNT(group_rows), MEMBER(groups)},
    {"parallel", parallel_rows, COUNT(parallel_rows), MEMBER(parallel)},
    {"parallel.way", way_rows, COUNT(way_rows), MEMBER(ways)},
    {"run", run_rows, COUNT(run_rows), MEMBER(run), .paths = WORDS("plan")},
    {"profile", profile_rows, COUNT(profile_rows), MEMBER(profile), .paths = WORDS("file")},
    {"plugins", plugins_rows, COUNT(plugins_rows), MEMBER(plugins), .path_lists = WORDS("path")},
};

void pst_job_set_defaults(const char *device, const char *transport)
{
    run_rows[0].initial = device;
    run_rows[1].initial = transport;
}
