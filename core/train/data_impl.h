/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers behind data.h: text (data_text.c) and synthetic (data_synthetic.c).
 */
#ifndef PST_TRAIN_DATA_IMPL_H
#define PST_TRAIN_DATA_IMPL_H

#include "train/data.h"

/* A stretch of text and its windows. */
struct pst_text {
    const uint8_t *bytes; /* `length` of them */
    uint64_t length;
    uint64_t context;   /* tokens of a sample; it reads one byte more, for the last target */
    uint64_t n_windows; /* per epoch */
};

struct pst_data {
    uint32_t kind; /* as in struct pst_job_data */
    uint64_t seed;
    struct pst_sample_shape shape;
    struct pst_text text[2]; /* by enum pst_split */
    char *storage[2];        /* what `text` points into; owned */
};

enum { PST_DATA_TEXT = 0, PST_DATA_SYNTHETIC = 1 };

pst_status pst_data_open_text(const struct pst_job *job, struct pst_data *data,
                              struct pst_error *err);
void pst_text_read(const struct pst_data *data, uint32_t split, uint64_t index, int32_t *ret_x,
                   int32_t *ret_targets);
/* inputs: where sample `index` goes, one pointer per input tensor. */
void pst_synthetic_read(const struct pst_data *data, uint32_t split, uint64_t index,
                        void *const *inputs);

/*
 * All files that the ':'-separated files and globs of `patterns` name, in sorted order, each once
 * (links to a file that is already there are left out), one after the other. `key` is the name of
 * what holds them, for messages: "data.train". free() the text.
 */
pst_status pst_text_files_read(const char *patterns, const char *key, char **ret_text,
                               uint64_t *ret_length, struct pst_error *err);

#endif
