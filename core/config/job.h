/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a config that belong to the core, checked and filled. [model] is read by the
 * model builder, [partitioner], [scheduler], [[memopt]] by the plugin host; their tables are kept
 * here.
 */
#ifndef PST_CONFIG_JOB_H
#define PST_CONFIG_JOB_H

#include "config/config.h"

enum { PST_MAX_DEGREES = 32 };

enum { PST_LOSS_OVER_SAMPLE = 0, PST_LOSS_OVER_TOKEN = 1 };

struct pst_job_data {
    uint32_t kind;       /* enum: text | synthetic | tokens | ... */
    const char *train;   /* files or globs, separated by ':'; sources by newline */
    const char *weights; /* of the sources, separated by ','; "": they are one */
    const char *valid;   /* like train; "": `valid_fraction` of train */
    double valid_fraction;
    const char *train_labels, *valid_labels; /* files of the labels, where they have their own */
    uint32_t dtype;                          /* of raw tokens; enum: uint16 | uint32 */
    const char *mean, *std;                  /* numbers separated by ','; "": the format's */
    const char *tokenizer;                   /* a tokenizer.json; "": tokens are bytes */
    const char *field;                       /* member of lines of JSON that is text; "": none is */
    int64_t seed;                            /* of the shuffling */
};

enum pst_schedule {
    PST_SCHEDULE_CONSTANT = 0,
    PST_SCHEDULE_COSINE = 1,
    PST_SCHEDULE_LINEAR = 2,
    PST_SCHEDULE_WSD = 3,
    PST_SCHEDULE_INVERSE_SQRT = 4
};

enum pst_decay_form { PST_DECAY_LINEAR = 0, PST_DECAY_COSINE = 1, PST_DECAY_ONE_MINUS_SQRT = 2 };

struct pst_job_train {
    int64_t steps, batch, microbatch; /* batch: samples per step; microbatch: samples */
    uint32_t loss;                    /* enum: auto | cross-entropy | mse | bce */
    uint32_t optimizer;               /* enum: sgd | momentum | adam | adamw | muon */
    const char *no_decay;             /* patterns separated by ','; or "auto" */
    uint32_t muon_factor;             /* enum: match-adamw | original */
    double lr, min_lr, beta1, beta2, eps, momentum, weight_decay;
    uint32_t schedule;   /* enum pst_schedule */
    double decay;        /* wsd: a part of the run up to 1, else steps */
    uint32_t decay_form; /* enum pst_decay_form */
    int64_t warmup;      /* steps */
    double clip;         /* global norm; 0: none */
    double label_smoothing, z_loss;
    uint32_t loss_over;               /* enum: sample | token */
    int64_t ignore_index;             /* class of targets that count nothing; -1: no further one */
    int64_t seed;                     /* of weights and dropout */
    const char *init;                 /* folder or file of published weights; "" = the seed's */
    const char *init_type;            /* their model_type, without a config.json */
    uint32_t on_non_finite;           /* enum: stop | skip */
    int64_t eval_every, eval_batches; /* 0: only at the end */
    int64_t sample;                   /* characters of text generated at the end; 0: none */
    const char *prompt;
    double temperature;
    int64_t top_k; /* 0: all */
    int64_t drain_every;
    const char *degrees; /* as it is written; the numbers: */
    uint32_t degree[PST_MAX_DEGREES], n_degrees;
};

/* Parameters that are updated in another way: the first that matches counts. */
struct pst_job_group {
    const char *match; /* patterns separated by ',' */
    double lr_scale, weight_decay;
    uint32_t optimizer; /* enum: train | adamw */
};

enum { PST_MAX_GROUPS = 8 };

/* tf32: tensors are f32, products may round their operands. */
enum pst_run_dtype { PST_RUN_F32 = 0, PST_RUN_BF16 = 1, PST_RUN_TF32 = 2 };

/* Queues of transfers, on transports whose sends wait in one (nccl). */
enum pst_run_p2p { PST_RUN_P2P_AUTO = 0, PST_RUN_P2P_ORDERED = 1, PST_RUN_P2P_EDGE = 2 };

enum pst_run_graphs { PST_RUN_GRAPHS_AUTO = 0, PST_RUN_GRAPHS_ON = 1, PST_RUN_GRAPHS_OFF = 2 };

struct pst_job_run {
    const char *device;    /* id of a module */
    const char *transport; /* likewise */
    int64_t threads_per_device;
    const char *kernels;     /* words that a device knows, joined by + */
    int64_t share;           /* ranks on one device that can be shared; 0: as many as must be */
    uint32_t dtype;          /* enum pst_run_dtype */
    uint32_t graphs;         /* enum pst_run_graphs */
    uint32_t p2p;            /* enum pst_run_p2p */
    uint64_t stall_limit;    /* ns */
    uint64_t host_bandwidth; /* of copies to and from host memory; 0: as [cluster] says */
    uint64_t host_memory;    /* bytes that all devices may offload; 0: what there is */
    bool copy_check;
    double emulated_scale; /* of the clock of emulated devices; 0: as large as needed */
    const char *plan;      /* run this plan file instead of searching; "" = none */
};

enum { PST_MEASURE_AUTO = 0, PST_MEASURE_NEVER = 1 };

struct pst_job_profile {
    const char *file; /* measured times in the place of [cluster]'s; "" = none */
    uint32_t measure; /* enum: auto | never */
};

enum { PST_VERIFY_SIZES = 0, PST_VERIFY_FULL = 1 };
enum { PST_BUSY_SKIP = 0, PST_BUSY_WAIT = 1 };

struct pst_job_checkpoint {
    const char *folder;     /* "" = none */
    const char *save_every; /* as it is written: */
    uint64_t every;         /* steps; 0: at the end alone, or */
    bool automatic;
    double save_budget;
    uint64_t mtbf; /* ns */
    int64_t keep_last, keep_every;
    uint32_t verify, busy; /* enums */
};

struct pst_job_output {
    int64_t log_every;       /* steps between progress lines when not on a terminal */
    const char *trace;       /* file for the trace of a run; "" = none */
    int64_t trace_steps;     /* that it shows, and the summary: the last so many */
    const char *log;         /* file that gets JSON lines; "" = none */
    const char *tensorboard; /* folder for an event file; "" = none */
};

enum { PST_ISOLATE_AUTO = 0, PST_ISOLATE_ALWAYS = 1, PST_ISOLATE_NEVER = 2 };

struct pst_job_plugins {
    uint32_t isolate;      /* enum: auto | always | never */
    uint64_t time_limit;   /* ns; 0: none */
    uint64_t memory_limit; /* bytes of address space of that process; 0: 80 % of the machine's */
    const char *path;      /* folders of plugins, parted by ':' or newlines */
};

enum {
    PST_ADVICE_ALL = 0,
    PST_ADVICE_MEMORY, /* the least memory that would do, or nothing if that takes too long */
    PST_ADVICE_NONE,
    PST_ADVICE_FASTER /* none; but of what fits, plans of a shorter step */
};

struct pst_job;
struct pst_graph;
struct pst_cluster;
struct pst_cost_model;
struct pst_plan;
struct pst_planned;

/* Nanoseconds of a step of a lowered plan in the long run; quick: about. */
typedef pst_status pst_planner_clock(const struct pst_plan *plan, const struct pst_graph *graph,
                                     const struct pst_cost_model *cost, bool quick,
                                     uint64_t *ret_ns, struct pst_error *err);
/* From a job to a plan: pst_planner_run, or what a program puts around it. */
typedef pst_status pst_job_planner(const struct pst_job *job, struct pst_graph *graph,
                                   const struct pst_cluster *cluster,
                                   const struct pst_cost_model *cost, pst_planner_clock *clock,
                                   bool (*cancelled)(void), struct pst_planned *ret_planned,
                                   struct pst_error *err);

struct pst_job {
    struct pst_config *config; /* borrowed */
    struct pst_job_data data;
    struct pst_job_train train;
    struct pst_job_group groups[PST_MAX_GROUPS];
    uint32_t n_groups;
    struct pst_job_run run;
    struct pst_job_profile profile;
    struct pst_job_checkpoint checkpoint;
    struct pst_job_output output;
    struct pst_job_plugins plugins;
    struct pst_config_node *model, *cluster, *partitioner, *scheduler; /* tables; may be NULL */
    struct pst_config_node *memopt[8];                                 /* in order */
    uint32_t n_memopt;
    pst_job_planner *planner; /* NULL: pst_planner_run */
    uint32_t advice;          /* PST_ADVICE_*: what `planner` adds where nothing fits; ALL unless a
                                 caller sets it */
    bool slim;                /* the plan is for reports: its programs may be slim */
    struct pst_arena arena;
};

/* A section that rows describe, for help and docs; it fills the member of struct pst_job there. */
struct pst_job_section {
    const char *name;
    const struct pst_param *rows;
    uint32_t n_rows;
    size_t offset;
};

extern const struct pst_job_section pst_job_sections[];
extern const uint32_t pst_job_n_sections;
#define PST_JOB_KEY_TEXT 96
/* The key of a config, such as "train.lr", that an option or a key of that name may mean. */
bool pst_job_key_meant(const char *word, char ret_key[PST_JOB_KEY_TEXT]);

/* The modules that [run] means where it names none: core knows no ids. They outlive all; before a
   job is read. */
void pst_job_tell_defaults(const char *device, const char *transport);

/*
 * Checks the sections (unknown ones too) and relations between values (batch divisible, ...). Paths
 * in [data], [train], [run] and [profile] become relative to the current folder, in the config too.
 * config.key, config.value, config.limit at the position of the fault; further faults in
 * err->details.
 */
pst_status pst_job_read(struct pst_config *config, struct pst_job *ret_job, struct pst_error *err);
void pst_job_finish(struct pst_job *job);

/* Strategy i < 2 + n_memopt of the job: its kind, and its table, which may be NULL. */
static inline const char *pst_job_strategy(const struct pst_job *job, uint32_t i,
                                           struct pst_config_node **ret_table)
{
    *ret_table = i == 0 ? job->partitioner : i == 1 ? job->scheduler : job->memopt[i - 2];
    return i == 0 ? "partitioner" : i == 1 ? "scheduler" : "memopt";
}

/* The word that an enum of a section holds. */
const char *pst_job_word(const struct pst_job *job, const char *section, const char *key,
                         char text[64]);

/* Values of f32 state that the job's optimizer keeps per parameter. */
uint32_t pst_job_optimizer_slots(const struct pst_job *job);

#endif
