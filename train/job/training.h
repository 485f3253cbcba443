/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a config that only training reads: [data], [checkpoint], [output], and the keys
 * of [train] that neither the planner nor the rules of updates need. Core fills them
 * (config/job.h), once the program has called pst_job_set_training(&pst_training_rows).
 */
#ifndef PST_TRAIN_JOB_TRAINING_H
#define PST_TRAIN_JOB_TRAINING_H

#include "config/job.h"

struct pst_job_data {
    const char *kind;    /* text, synthetic, tokens, ... (data/data_kinds.c), or a plugin's id */
    const char *path;    /* of that plugin's file; "": it is searched for */
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

/* The keys of [train] that neither the planner nor the rules of updates read. */
struct pst_job_loop {
    int64_t steps;
    double lr, min_lr, beta1, beta2, eps, momentum;
    uint32_t schedule;                /* enum pst_schedule */
    double decay;                     /* wsd: a part of the run up to 1, else steps */
    uint32_t decay_form;              /* enum pst_decay_form */
    int64_t warmup;                   /* steps */
    int64_t ignore_index;             /* class of targets that count nothing; -1: no further one */
    const char *init;                 /* folder or file of published weights; "" = the seed's */
    const char *init_type;            /* their model_type, without a config.json */
    const char *init_family;          /* file with their names and layouts; "" = penstock's own */
    int64_t eval_every, eval_batches; /* 0: only at the end */
    int64_t sample;                   /* characters of text generated at the end; 0: none */
    const char *prompt;
    double temperature;
    int64_t top_k; /* 0: all */
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

struct pst_training {
    struct pst_job_data data;
    struct pst_job_loop loop;
    struct pst_job_checkpoint checkpoint;
    struct pst_job_output output;
};

extern const struct pst_job_training pst_training_rows;

#endif
