/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of the saver share: where each value is, and what is written of it.
 */
#ifndef PST_CHECKPOINT_SAVER_IMPL_H
#define PST_CHECKPOINT_SAVER_IMPL_H

#include "base/arena.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/saver.h"

/* Names of folders that are not yet, or no longer, a checkpoint. The next run removes them. */
#define SAVER_PARTIAL ".partial-"
#define SAVER_RETIRED ".retired-"

/* The elements of a value that a rank answers for, `elems` from `first` on; those of a part come
   after those of the parts before. */
struct saver_tensor {
    struct pst_checkpoint_tensor is; /* but for pieces and checksum; n_pieces: of these */
    uint64_t first, elems;
    uint32_t process, first_piece;
    uint64_t offset; /* in its process's copies, in elements */
};

struct saver_piece {
    struct pst_checkpoint_piece is; /* but for file and checksum */
    uint32_t tensor;
    uint64_t offset, elems; /* in its process's copies */
};

/* The values of all processes: process by process, each in the order of pst_exec_state_of. */
struct saver_layout {
    struct pst_arena arena;
    uint32_t n_processes, n_tensors, n_pieces;
    struct saver_tensor *tensors;
    const struct saver_tensor **order; /* ascending by name, then by first element */
    struct saver_piece *pieces;
    uint32_t *first_tensor, *first_piece; /* per process, and one after the last */
    uint64_t *elems;                      /* per process */
    uint64_t *rank_offset;                /* per rank: in its process's copies */
    size_t sums_bytes;                    /* a process's sums have, the same for all */
};

/* The size and checksums that a process computed while it wrote its shard. */
struct saver_sums {
    uint64_t bytes; /* of the file; 0: it has none */
    struct pst_hash file;
    struct pst_hash hashes[]; /* of its tensors in order, then of its pieces. Of tensors with one
                                 name the first has that of all, if they are all its own */
};

/* Where and what a save writes. */
struct saver_job {
    const struct pst_saver_config *config;
    const struct saver_layout *layout;
    const char *folder, *run;
    uint32_t process;
    const float *values; /* the process's copies */
    char *sums;          /* of this process, and once they were gathered of all, one by one */
    struct pst_save_moment moment;
    uint64_t written_bytes; /* of all files, when it is complete */
};

/* saver_layout.c */
void saver_layout_make(struct saver_layout *layout, const struct pst_session *session);
/* The end of the tensors with the name of order[from]. *ret_one: they are of one process. */
uint32_t saver_tensor_end(const struct saver_layout *layout, uint32_t from, bool *ret_one);
/* Fills the manifest of a checkpoint of this session, except for the moment and the contents. */
void pst_checkpoint_describe(const struct pst_session *session, uint64_t data_digest,
                             struct pst_arena *arena, struct pst_manifest *ret_manifest);
struct saver_sums *saver_sums_of(const struct saver_job *job, uint32_t process);
struct pst_hash *saver_tensor_sum(const struct saver_job *job, const struct saver_tensor *tensor);
struct pst_hash *saver_piece_sum(const struct saver_job *job, uint32_t piece);
/* The manifest of a save whose sums are gathered; free() it. */
char *saver_manifest(const struct saver_job *job);
/* The name of a process's file. */
void saver_shard_name(uint32_t process, char text[32]);

/* saver_write.c: on the writing thread. */
pst_status saver_write_shard(struct saver_job *job, struct pst_error *err);
/* Manifest, COMMIT, the rename, and the end of older ones: on the first process. */
pst_status saver_commit(struct saver_job *job, struct pst_error *err);
/* The partial folder goes. */
void saver_remove_partial(const struct saver_job *job);

/* saver_folder.c: on the first process, when a run begins. *ret_lock: a file to close at its end.
 */
pst_status saver_take_folder(const struct pst_saver_config *config, uint64_t bytes, int *ret_lock,
                             struct pst_error *err);
pst_status saver_check_space(const char *folder, uint64_t bytes, struct pst_error *err);
void saver_remove_folder(const char *path); /* with its files; a link is left alone */
void saver_remove_all(const char *folder, const char *prefix); /* of such names */
/* output.write: the call of the system that set errno. */
pst_status saver_fail(struct pst_error *err, const char *path, const char *what);

#endif
