/* SPDX-License-Identifier: Apache-2.0
 *
 * One combination of strategies tried out: planned, simulated, run for some rounds. What does not
 * work is an outcome too, with its reason.
 */
#ifndef PST_TUNE_TRIAL_H
#define PST_TUNE_TRIAL_H

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "host/remark.h"
#include "sim/sim.h"

enum pst_trial_state {
    PST_TRIAL_OPEN = 0, /* not tried */
    PST_TRIAL_DONE,
    PST_TRIAL_MISMATCH, /* the strategies do not go together, or not with this job */
    PST_TRIAL_NO_FIT,   /* no plan within the memory */
    PST_TRIAL_FAILED    /* a plugin misbehaved, or the run failed */
};

struct pst_trial {
    enum pst_trial_state state;
    struct pst_error why; /* unless open or done */
    uint32_t batch, microbatch, n_stages, n_devices;
    struct pst_sim_result sim; /* of the step that plans are compared by: session->simulated */
    uint64_t *arena_bytes;     /* [n_devices] */
    uint64_t capacity_bytes;   /* UINT64_MAX: no limit */
    uint32_t cores;            /* of this machine, that more devices share; 0: none does */
    bool in_turn;              /* in `sim` devices take turns on these */
    double search_seconds;     /* of the planner, wherever it ran */
    char *plan;                /* the plan file's text; NULL unless it was asked for */
    struct pst_hash digest;    /* of the plan: pst_plan_digest */
    /* what the partitioner said of its answer, in the arena */
    struct pst_arena arena;
    uint32_t n_remarks;
    struct pst_partition_remark *remarks;
    /* of runs */
    bool ran, peaks_equal;    /* every device reached just what was predicted */
    uint32_t n_rounds;        /* that it was run */
    uint32_t n_steps;         /* of each that count; those that warm up came before */
    uint64_t *step_ns;        /* [n_rounds * n_steps], as they came */
    uint64_t measured_ns;     /* median of the rounds' median steps */
    uint64_t low_ns, high_ns; /* 95 % interval of that (significance.h); 0: of one round, none */
    uint64_t predicted_ns;    /* on the cores of this machine: session->here_ns */
    double final_loss;
};

/* How one trial does beside another of the same config. */
struct pst_versus {
    bool known;       /* both are done */
    uint32_t record;  /* the other */
    double speedup;   /* its step over ours: above 1 we are faster */
    bool tested;      /* both were run for several rounds; else the next are 0 */
    double low, high; /* 95 % interval of the speed-up, for all pairs of the config together */
    double p;         /* that a difference like this comes about where there is none */
};
#define PST_SIGNIFICANT 0.05
/* Tested, and no difference was found. */
static inline bool pst_versus_is_same(const struct pst_versus *versus)
{
    return versus->tested && versus->p >= PST_SIGNIFICANT;
}

struct pst_trial_options {
    bool keep_plan;
    bool faster;          /* of what fits, look for plans of a shorter step */
    bool advice;          /* where nothing fits, `why` has the hint with how much memory would do */
    uint64_t patience_ns; /* planning that takes longer is given up, as what does not go together:
                             time of the processor, or where plugins are in a process of their own
                             of the clock; 0: no such limit */
    bool (*cancelled)(void);
};

/*
 * Plans and simulates a config, in the JSON form of pst_config_to_json. Returns PST_OK for every
 * outcome; errors: PST_ERR_CANCELLED after options->cancelled, plugin.not-found and config.key (a
 * name that is wrong is no outcome), and PST_ERR_NOMEM of a library that this program calls. Finish
 * *ret_trial after PST_OK.
 */
pst_status pst_trial_run(const char *config_json, const struct pst_trial_options *options,
                         struct pst_trial *ret_trial, struct pst_error *err);
/*
 * Runs the plan of a trial that is done and has kept it, for one round of n_steps after a fifth as
 * many that do not count. A run that fails is an outcome, too. Errors: PST_ERR_CANCELLED after a
 * signal, which leaves the trial as it was; run.stalled (a device that stands still is not to be
 * had again).
 */
pst_status pst_trial_measure(const char *config_json, uint32_t n_steps, struct pst_trial *trial,
                             struct pst_error *err);
/* Figures of a session's plan, which is predicted; its text, too, where that is to be kept. *trial
   is zeroed, and of state PST_TRIAL_DONE. */
struct pst_session;
void pst_trial_take(const struct pst_session *session, bool keep, struct pst_trial *trial);
/* Shows the plan of a trial that is done and has kept it, in a session that goes afterwards.
   Errors: those of making the session, and show's. */
pst_status pst_trial_look(const char *config_json, const struct pst_trial *trial,
                          pst_status (*show)(void *context, const struct pst_session *session,
                                             struct pst_error *err),
                          void *context, struct pst_error *err);
void pst_trial_finish(struct pst_trial *trial);

/* The number of trials of a command that get advice, each some dozens of plans of a small job. No
   time limit ends it: then a busy machine would name other amounts, or find no plan that fits. */
uint32_t pst_trial_n_advised(bool something_fits);
/* It does not fit, or its strategies do not go together with the memory that there is. */
bool pst_trial_was_refused(const struct pst_trial *trial);
/*
 * Tries the config of a trial that was refused again, for how much memory would do. Where that is
 * found, or a plan that fits after all, *trial is the second try. Nothing happens to other trials,
 * nor where *n_advised, how many may still get advice, is 0. Errors as of pst_trial_run.
 */
pst_status pst_trial_advise(const char *config_json, const struct pst_trial_options *options,
                            uint32_t *n_advised, struct pst_trial *trial, struct pst_error *err);

/* By the prediction, or by the run where there was one; 0 unless done. */
double pst_trial_samples_per_second(const struct pst_trial *trial);

/* Median step of one of its rounds. */
double pst_trial_round_ns(const struct pst_trial *trial, uint32_t round);

/* Returns the bytes of the device that holds the most. */
uint64_t pst_trial_most_bytes(const struct pst_trial *trial);

#endif
