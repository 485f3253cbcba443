/* SPDX-License-Identifier: Apache-2.0
 *
 * The combinations that [compare] of a config asks for: every partitioner with every scheduler,
 * list of memory optimizers, number of devices, size of micro-batches, number of replicas,
 * `parallel.zero`, `parallel.tensor` and `parallel.sequence` that it lists. What it does not list
 * is the config's own. Other lists of that form (space.h) are read alike.
 */
#ifndef PST_TUNE_COMBINATIONS_H
#define PST_TUNE_COMBINATIONS_H

#include <jansson.h>

#include "config/job.h"

enum pst_axis_kind {
    PST_AXIS_PARTITIONER = 0,
    PST_AXIS_SCHEDULER,
    PST_AXIS_MEMOPT,
    PST_AXIS_DEVICES,
    PST_AXIS_MICROBATCH,
    PST_AXIS_REPLICAS,
    PST_AXIS_ZERO,
    PST_AXIS_TENSOR,
    PST_AXIS_SEQUENCE,
    PST_AXES
};

/* A value of an axis: what stands in the config, and how it is called in tables. */
struct pst_axis_value {
    const char *label;
    json_t *value; /* owned; NULL: the config's own */
    bool one_copy; /* of a search (space.h), a scheduler: the model is there once, as far as its
                      plugin says */
};

struct pst_axis {
    uint32_t n;
    struct pst_axis_value *values;
};

struct pst_combinations {
    struct pst_arena arena;
    const char *path; /* of the config, for messages */
    json_t *base;     /* the effective config */
    struct pst_axis axes[PST_AXES];
    const char **methods; /* names of triples of strategies, whose axes then go round together;
                             NULL: each with each */
    uint32_t n;
};

/* More are refused (config.limit). */
#define PST_COMBINATIONS_MOST 100000u

/*
 * Reads [compare] of a job that pst_job_read has judged. config.key, config.value at the position
 * of [compare]; no list at all is one combination.
 */
pst_status pst_combinations_read(const struct pst_job *job, struct pst_combinations *ret_set,
                                 struct pst_error *err);
/* Reads other lists, a table that may be NULL and may be freed afterwards. Errors name positions in
   `section`. */
pst_status pst_combinations_read_lists(const struct pst_job *job, const char *section,
                                       struct pst_config_node *lists, uint32_t most,
                                       struct pst_combinations *ret_set, struct pst_error *err);
/* Returns how many times an axis multiplies the combinations; the last axis goes round fastest. */
uint32_t pst_combinations_factor(const struct pst_combinations *set, enum pst_axis_kind axis);
/* Unless [compare] lists sizes: all powers of two that divide the batch, in their place. */
void pst_combinations_all_sizes(struct pst_combinations *set, uint32_t batch);
/* One size alone, the first of the list or the config's own. */
void pst_combinations_one_size(struct pst_combinations *set);
void pst_combinations_finish(struct pst_combinations *set);

/* The name of its triple of strategies, or NULL. */
const char *pst_combination_method(const struct pst_combinations *set, uint32_t i);
const struct pst_axis_value *pst_combination_value(const struct pst_combinations *set, uint32_t i,
                                                   enum pst_axis_kind axis);
const char *pst_combination_label(const struct pst_combinations *set, uint32_t i,
                                  enum pst_axis_kind axis);

/* Returns true if it has one part, which a list of `tensor` says, and the config says how parts
   divide operators: that does not count there. */
bool pst_combination_undivided(const struct pst_combinations *set, uint32_t i);

/* The config of combination i as JSON, which pst_config_from_json reads; free() it. microbatch and
   batch replace those of the config where they are not 0. */
char *pst_combination_config(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                             uint32_t batch);

#endif
