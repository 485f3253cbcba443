/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the figures of a comparison come from: program, machine, and of each config the model, the
 * profile, the seed and every strategy with all its parameters.
 */
#ifndef PST_TUNE_PROVENANCE_H
#define PST_TUNE_PROVENANCE_H

#include "base/hash.h"
#include "config/job.h"
#include "tune/combinations.h"

/* A plugin as one value of an axis uses it. */
struct pst_provenance_plugin {
    const char *kind, *id, *version;
    const char *label;      /* of the value, as records have it */
    const char *path;       /* of the file */
    const char *digest;     /* XXH3-128 of the file; "" where it cannot be read */
    const char *parameters; /* a JSON object: all of them, defaults included */
};

struct pst_provenance_config {
    const char *path, *model;
    uint64_t model_digest; /* of its graph; 0: it could not be built */
    const char *profile;   /* path, or "": the cluster's description */
    const char *profile_digest;
    int64_t seed; /* train.seed */
    const char *device, *transport;
    const char *config_json; /* the effective config */
    uint32_t n_plugins;
    struct pst_provenance_plugin *plugins;
};

struct pst_provenance {
    struct pst_arena arena;
    const char *program, *program_digest;   /* version; XXH3-128 of the binary */
    const char *cpu, *kernel, *host, *time; /* time: UTC, ISO 8601 */
    uint32_t cores;                         /* that this process may use */
    uint64_t memory_bytes;
    double load[3]; /* mean runnable processes of 1, 5, 15 minutes, when it began */
    double others;  /* part of the processors that others took while it ran; of runs, else 0 */
    uint32_t n_configs;
    struct pst_provenance_config *configs;
};

/* Records the machine and the program, before anything is tried. */
void pst_provenance_begin(struct pst_provenance *ret_provenance);
/* Adds a config. The job and the set must outlive the provenance. */
void pst_provenance_add(struct pst_provenance *provenance, const struct pst_job *job,
                        const struct pst_combinations *set);
/* The plugins of a label in one line, "id version xxh128:digest {parameters}; ...", in the arena.
 */
const char *pst_provenance_words(struct pst_arena *arena,
                                 const struct pst_provenance_config *config, const char *kind,
                                 const char *label);
void pst_provenance_finish(struct pst_provenance *provenance);

#endif
