/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a config that belong to the core, checked and filled. [model] is read by the
 * model builder, [partitioner], [scheduler], [[memopt]] by the plugin host; their tables are kept
 * here. A training program adds sections of its own, and keys to [train].
 */
#ifndef PST_CONFIG_JOB_H
#define PST_CONFIG_JOB_H

#include "config/report.h"

enum { PST_MAX_DEGREES = 32 };

enum { PST_LOSS_OVER_SAMPLE = 0, PST_LOSS_OVER_TOKEN = 1 };

/* The keys of [train] that the planner and the rules of updates read. */
struct pst_job_train {
    int64_t batch, microbatch; /* batch: samples per step; microbatch: samples */
    uint32_t loss;             /* enum: auto | cross-entropy | mse | bce */
    uint32_t optimizer;        /* enum: sgd | momentum | adam | adamw | muon */
    double weight_decay;
    const char *no_decay; /* patterns separated by ','; or "auto" */
    uint32_t muon_factor; /* enum: match-adamw | original */
    double clip;          /* global norm; 0: none */
    double label_smoothing, z_loss;
    uint32_t loss_over;     /* enum: sample | token */
    int64_t seed;           /* of weights and dropout */
    uint32_t on_non_finite; /* enum: stop | skip */
    int64_t drain_every;
    const char *degrees; /* as it is written; the numbers: */
    uint32_t degree[PST_MAX_DEGREES], n_degrees;
};

enum { PST_GATHERED_REPLAY = 0, PST_GATHERED_KEEP = 1 };

struct pst_job_parallel {
    const char *tensor; /* devices that share each operator: the text of the config */
    uint32_t tensors[PST_MAX_DEGREES], n_tensors; /* its numbers; partitioners that give stages no
                                                     degree get the first */
    bool sequence;     /* tokens are divided among the parts outside split operators */
    uint32_t ways;     /* enum pst_ways: auto | megatron | ulysses | rows */
    uint32_t gathered; /* enum: replay | keep */
    int64_t zero;      /* stage of ZeRO */
    int64_t prefetch;  /* plan->prefetch, where zero is 2 or 3 */
};

/* Operators that are divided in another way: the first that matches counts. */
struct pst_job_way {
    const char *match; /* patterns separated by ',' */
    uint32_t way;      /* enum pst_way */
};

/* Parameters that are updated in another way: the first that matches counts. */
struct pst_job_group {
    const char *match; /* patterns separated by ',' */
    double lr_scale, weight_decay;
    uint32_t optimizer; /* enum: train | adamw */
};

enum { PST_MAX_GROUPS = 8, PST_MAX_WAYS = 16 };

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
struct pst_training; /* the program defines it */
struct pst_graph;
struct pst_cluster;
struct pst_cost_model;
struct pst_plan;
struct pst_planned;
struct pst_cuts; /* planner.h */

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
    struct pst_job_train train;
    struct pst_job_parallel parallel;
    struct pst_job_group groups[PST_MAX_GROUPS];
    struct pst_job_way ways[PST_MAX_WAYS];
    uint32_t n_groups, n_ways;
    struct pst_job_run run;
    struct pst_job_profile profile;
    struct pst_job_plugins plugins;
    struct pst_config_node *model, *cluster, *partitioner, *scheduler; /* tables; may be NULL */
    struct pst_config_node *memopt[8];                                 /* in order */
    uint32_t n_memopt;
    struct pst_training *training; /* the sections of the training program, in `arena`; NULL where
                                      no program added any */
    pst_job_planner *planner;      /* NULL: pst_planner_run */
    const struct pst_cuts *cuts;   /* stages that are settled; NULL: the partitioner is asked */
    uint64_t begin_ns; /* of the search, whose time limit is that of several; 0: it is one */
    uint32_t advice;   /* PST_ADVICE_*: what `planner` adds where nothing fits; ALL unless a
                          caller sets it */
    bool slim;         /* the plan is for reports: its programs may be slim */
    struct pst_arena arena;
};

/* A section that rows describe, for reading, help and docs. */
struct pst_job_section {
    const char *name;
    const struct pst_param *rows;
    uint32_t n_rows;
    size_t offset, size; /* the member that they fill: of struct pst_job, or of pst_training */
    bool training;       /* it is a member of struct pst_training */
    const char *const *paths, *const *path_lists; /* keys that are paths, or several; NULL: none */
    const struct pst_job_section *more; /* a training program's part, the last of the rows */
    /* NULL, or the key of the first row, a string: where it is none of the words in its range it
       names a plugin. Then rows and paths count for `of_plugins` alone, other keys are the
       plugin's. */
    const char *names_plugin;
    const char *const *of_plugins;
};

enum { PST_MAX_SECTIONS = 13 };
/* Core's sections, then those of the training program; the last has no name. */
extern struct pst_job_section pst_job_sections[PST_MAX_SECTIONS + 1];

/* The sections of a training program; a name that core has means further rows there. */
struct pst_job_training {
    const struct pst_job_section *sections;
    uint32_t n_sections;
    size_t size; /* of struct pst_training */
    /* Relations between values that are right by themselves; core's have been checked. */
    void (*check)(struct pst_job *job, struct pst_report *report);
};
/* Process-wide, before a job is read; one program is told of, however often. */
void pst_job_set_training(const struct pst_job_training *training);

/* Every table that a config may hold at its top; ended by NULL. */
extern const char *const pst_job_tables[];

/* Rows of a table that core's sections do not have: their keys may be meant elsewhere. They outlive
   all; process-wide. */
void pst_job_tell_rows(const char *table, const struct pst_param *rows, uint32_t n_rows);

#define PST_JOB_KEY_TEXT 96
/* The key of a config, such as "train.lr", that an option or a key of that name may mean. */
struct pst_job_meant {
    char key[PST_JOB_KEY_TEXT];
    const char *remark; /* what to know of it, such as ", which counts steps"; else "" */
    const char *value;  /* that it takes; NULL: that of the word */
    const char *table;  /* the only one that has a key of the word's name; NULL: there is none */
};
bool pst_job_key_meant(const char *word, struct pst_job_meant *ret);

/* The modules that [run] means where it names none: core knows no ids. They outlive all; before a
   job is read. */
void pst_job_set_defaults(const char *device, const char *transport);

/*
 * Checks the sections (unknown ones too) and relations between values (batch divisible, ...). Keys
 * that are paths become relative to the current folder, in the config too.
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

/* The node to blame for a relation: the key that is written, else its partner, else the section. */
const struct pst_config_node *pst_job_blame(struct pst_config_node *table, const char *key,
                                            const char *partner);

/* The word that an enum of a section holds. */
const char *pst_job_word(const struct pst_job *job, const char *section, const char *key,
                         char text[64]);

/* Values of f32 state that the job's optimizer keeps per parameter. */
uint32_t pst_job_optimizer_slots(const struct pst_job *job);

#endif
