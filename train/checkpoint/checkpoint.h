/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint: a folder with safetensors shards, manifest.json that says what they hold and how
 * the run stood, and COMMIT, the one line that makes it complete. docs/checkpoints.md has the
 * layout. Nothing in it depends on the plan that wrote it. Reading is here, in checkpoint_read.c
 * and checkpoint_manifest.c, comparing in checkpoint_compare.c; saver.h writes.
 */
#ifndef PST_CHECKPOINT_CHECKPOINT_H
#define PST_CHECKPOINT_CHECKPOINT_H

#include "base/hash.h"
#include "base/json.h"
#include "exec/exec.h"
#include "weights/safetensors.h"

#define PST_CHECKPOINT_PIECE    ((uint64_t)64 << 20) /* bytes that a piece has at most */
#define PST_CHECKPOINT_MANIFEST ((size_t)256 << 20)  /* and a manifest */
#define PST_CHECKPOINT_NAME     1024                 /* with its NUL, of a tensor that is written */

/* A box of a tensor, or of a part of it, the next elements of its row-major order, as a tensor of a
   shard. */
struct pst_checkpoint_piece {
    uint32_t file;
    const char *key; /* there */
    uint64_t begin[PST_ST_RANK], shape[PST_ST_RANK];
    const char *xxh3;
    uint32_t part; /* which has the box; 0 where the tensor is not split */
};

struct pst_checkpoint_tensor {
    const char *name; /* pst_state_name */
    uint32_t rank;
    uint64_t shape[PST_ST_RANK], elems;
    const char *xxh3; /* of its pieces in order; NULL: they are in several files */
    uint32_t n_pieces;
    struct pst_checkpoint_piece *pieces;
    struct pst_box box; /* parts > 1: the pieces are of its parts, one part after the other */
};

struct pst_checkpoint_file {
    const char *name;
    uint64_t bytes;
    const char *xxh3;
};

/* Settings, each as a text, on which bits depend beside model, data and seeds. */
enum pst_numeric {
    PST_NUMERIC_DEVICE = 0,
    PST_NUMERIC_KERNELS,
    PST_NUMERIC_DTYPE,
    PST_NUMERIC_THREADS,
    PST_NUMERIC_MICROBATCH,
    PST_NUMERIC_REPLICAS,
    PST_NUMERIC_TENSOR,   /* parts of a replica */
    PST_NUMERIC_SEQUENCE, /* parallel.sequence */
    PST_NUMERIC_WAYS,     /* parallel.ways, as far as bits depend on it */
    PST_NUMERIC_WAY,      /* struct pst_graph's by_name: all of a few; PST_CHECKPOINT_NO_WAY */
    PST_NUMERIC_ZERO,     /* PST_CHECKPOINT_SUMMED, if the replicas sum the gradients of each of
                             several micro-batches; else PST_CHECKPOINT_ZERO */
    PST_NUMERICS
};
#define PST_CHECKPOINT_ZERO   "0 or 1"
#define PST_CHECKPOINT_NO_WAY "no names"
#define PST_CHECKPOINT_SUMMED "2 or 3"
extern const char *const pst_numeric_names[PST_NUMERICS];

/* The point from which a run counts: since then every step has used a batch of samples, and has
   made an update, or `each` updates, or was skipped. A change of the batch, of the optimizer or of
   `each` sets a new point. */
struct pst_checkpoint_counts {
    uint64_t step, samples, updates; /* there */
    uint64_t skipped;                /* since then */
    uint64_t each;                   /* updates of a step: 1, or one for each micro-batch */
};

struct pst_manifest {
    uint32_t version;
    const char *run, *written_by; /* id of the run that wrote it; "penstock 0.3.0" */
    uint64_t step, updates;       /* steps made; updates that the optimizer counts */
    uint64_t samples;             /* of the training data that were used: the data's cursor */
    const char *model, *model_digest;
    uint32_t n_parameters;
    const char *model_file,
        *model_file_hash; /* absolute path, checksum; NULL: it is from no file */
    const char *folder;   /* from which paths of the config are meant; NULL: unknown */
    const char *data_digest;
    uint64_t data_seed, epoch, batch;
    uint64_t seed; /* of Philox: weights and dropout */
    const char *optimizer;
    uint32_t skipped;                    /* the last steps, in a row */
    struct pst_checkpoint_counts counts; /* from version 2 on */
    const char *numerics[PST_NUMERICS];
    const char *plan_digest, *partitioner, *scheduler, *memopt; /* "id version" */
    const char *rule;                                           /* of versions */
    uint32_t drain_every;
    bool drained;       /* where the rule would not have */
    const char *config; /* the effective config, a JSON object */
    uint32_t n_files, n_tensors;
    struct pst_checkpoint_file *files;
    struct pst_checkpoint_tensor *tensors; /* ascending names */
};

/* --- names -------------------------------------------------------------------------------------*/

/* "param/h.0.attn.weight", "opt/1/…", "version/1/…", "state/0/" and the operator's name. */
void pst_state_name(const struct pst_graph *graph, const struct pst_state_key *key,
                    char text[PST_CHECKPOINT_NAME]);
/* The shape of that value in the whole model; returns its rank. elems: of an operator's. */
uint32_t pst_state_shape(const struct pst_graph *graph, const struct pst_state_key *key,
                         uint64_t elems, uint64_t ret_shape[PST_ST_RANK]);

/* --- the manifest ------------------------------------------------------------------------------*/

/* free() the text. */
char *pst_manifest_write(struct pst_manifest *manifest);
/* Text with a NUL after it; what is read lives in the arena. Whatever is wrong is PST_ERR_CONFIG,
   checkpoint.damaged (input.unsupported: of a later format); path is for messages. */
pst_status pst_manifest_parse(const char *path, const char *text, size_t length,
                              struct pst_arena *arena, struct pst_manifest *ret_manifest,
                              struct pst_error *err);
/* The shape of one of the tensor's parts, its own where it has none; returns the elements. */
uint64_t pst_checkpoint_part(const struct pst_checkpoint_tensor *tensor,
                             uint64_t ret_shape[PST_ST_RANK]);
/* Ends a piece's elements: their number, or 0 where they do not continue the tensor at `from` in
   row-major order; of a tensor with parts, after those of the parts before. */
uint64_t pst_checkpoint_box(const struct pst_checkpoint_tensor *tensor,
                            const struct pst_checkpoint_piece *piece, uint64_t from);

/* --- reading -----------------------------------------------------------------------------------*/

struct pst_checkpoint {
    struct pst_manifest manifest;
    const char *path;             /* of the folder */
    char sha256[PST_SHA256_TEXT]; /* of the manifest */
};

/*
 * Opens a folder: COMMIT, manifest and the sizes and headers of all shards hold. Errors, exit 2:
 * checkpoint.none: there is no such folder; checkpoint.damaged. Close it.
 */
pst_status pst_checkpoint_open(const char *path, struct pst_checkpoint **ret_checkpoint,
                               struct pst_error *err);
/* Is this failure one of the checkpoint itself, so that an older one may do? */
bool pst_checkpoint_is_unfit(pst_status status, const struct pst_error *err);
void pst_checkpoint_close(struct pst_checkpoint *checkpoint); /* accepts NULL */

/* NULL: it has none of that name. */
const struct pst_checkpoint_tensor *pst_checkpoint_find(const struct pst_checkpoint *checkpoint,
                                                        const char *name);
/* All its elements, every piece held against its checksum; ret_values NULL: that alone. Parts are
   put together. Any thread. Errors: checkpoint.damaged. */
pst_status pst_checkpoint_read(const struct pst_checkpoint *checkpoint,
                               const struct pst_checkpoint_tensor *tensor, float *ret_values,
                               struct pst_error *err);

/* Values of a checkpoint for an executor of a graph that it fits; those of parameters are whole,
   where the graph is that of a part, too. */
struct pst_checkpoint_source {
    const struct pst_checkpoint *checkpoint;
    const struct pst_graph *graph;
    bool without_slots; /* those of the optimizer begin with zeros */
};
struct pst_exec_source pst_checkpoint_source(struct pst_checkpoint_source *source);

/* Tells every defect of a folder, one call each, and goes on; the number of them. */
uint32_t pst_checkpoint_check(const char *path,
                              void (*tell)(void *context, const struct pst_error *defect),
                              void *context);

/* --- against a job -----------------------------------------------------------------------------*/

#define PST_CHECKPOINT_DIFFERENCE 768 /* bytes of its text */

/* Has it that value of a graph, in the shape of the whole model? Else the difference says what is
   otherwise. *ret_tensor: what is there of that name, or NULL. */
bool pst_checkpoint_has(const struct pst_checkpoint *checkpoint, const struct pst_graph *graph,
                        const struct pst_state_key *key, uint64_t elems,
                        const struct pst_checkpoint_tensor **ret_tensor,
                        char difference[PST_CHECKPOINT_DIFFERENCE]);

struct pst_checkpoint_setting {
    const char *key, *now, *was; /* values as JSON, or "its default" */
};
struct pst_config;
/* Tells each key of a section that the config of the run that wrote it has otherwise. */
void pst_checkpoint_compare(
    const struct pst_checkpoint *checkpoint, const struct pst_config *config, const char *section,
    void (*tell)(void *context, const struct pst_checkpoint_setting *setting), void *context);

/* --- folders of checkpoints --------------------------------------------------------------------*/

/* Steps of the checkpoints (complete or not) of a folder, ascending; free() them. None where there
   is no such folder. Errors: PST_ERR_IO, input.path. */
pst_status pst_checkpoint_list(const char *folder, uint64_t **ret_steps, uint32_t *ret_n,
                               struct pst_error *err);
/* "folder/step-000000000040"; free() it. */
char *pst_checkpoint_path(const char *folder, uint64_t step);
/* Is it the folder of one checkpoint, by its name or what is in it, rather than of several? */
bool pst_checkpoint_is_one(const char *path);

#endif
