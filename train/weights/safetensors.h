/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files: named arrays after a JSON header, as Hugging Face's library writes them.
 * Little endian, row-major. What is read may come from anybody: names, shapes and places are
 * checked when a file is opened, before anything of their size is reserved.
 */
#ifndef PST_WEIGHTS_SAFETENSORS_H
#define PST_WEIGHTS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PST_ST_RANK = 8 };
#define PST_ST_HEADER  100000000u /* bytes that a header may have */
#define PST_ST_TENSORS 1000000u   /* of a file */

/* Ascending rank: a file begins with the last ones, so that each lies aligned. */
enum pst_st_dtype {
    PST_ST_BOOL,
    PST_ST_U8,
    PST_ST_I8,
    PST_ST_I16,
    PST_ST_U16,
    PST_ST_F16,
    PST_ST_BF16,
    PST_ST_I32,
    PST_ST_U32,
    PST_ST_F32,
    PST_ST_F64,
    PST_ST_I64,
    PST_ST_U64,
    PST_ST_DTYPES
};

const char *pst_st_dtype_name(enum pst_st_dtype dtype); /* "BF16" */
uint32_t pst_st_dtype_bytes(enum pst_st_dtype dtype);

struct pst_st_tensor {
    const char *name;
    enum pst_st_dtype dtype;
    uint32_t rank; /* 0: a scalar */
    uint64_t shape[PST_ST_RANK];
    uint64_t elems;
    uint64_t begin, bytes; /* of its data within the file's data; a writer's caller leaves them */
};

/* --- reading -----------------------------------------------------------------------------------*/

struct pst_st_file {
    const struct pst_st_tensor *tensors; /* by name, ascending bytes */
    uint32_t n;
    const char *path; /* for messages */
};

/*
 * Opens a file of a folder; the name is plain: no slash, no link is followed. Errors: PST_ERR_IO
 * with input.path; PST_ERR_CONFIG with input.limit, input.unsupported (a dtype), input.syntax, each
 * naming byte or tensor. path: "folder/name" for messages. Close it.
 */
pst_status pst_st_open(int folder, const char *name, const char *path,
                       struct pst_st_file **ret_file, struct pst_error *err);
void pst_st_close(struct pst_st_file *file); /* accepts NULL */

/* NULL where there is none. */
const struct pst_st_tensor *pst_st_find(const struct pst_st_file *file, const char *name);

/* `bytes` of the tensor from `offset`. Any thread. Errors: PST_ERR_IO, input.path. */
pst_status pst_st_read(const struct pst_st_file *file, const struct pst_st_tensor *tensor,
                       uint64_t offset, uint64_t bytes, void *ret_data, struct pst_error *err);
/* n elements from `first` as f32: f64 is rounded to nearest. Any thread. Errors: also
   PST_ERR_CONFIG with input.unsupported for integers. */
pst_status pst_st_read_f32(const struct pst_st_file *file, const struct pst_st_tensor *tensor,
                           uint64_t first, uint64_t n, float *ret_values, struct pst_error *err);

/* --- writing -----------------------------------------------------------------------------------*/

struct pst_st_writer;

struct pst_st_pair {
    const char *key, *value;
};

/*
 * Begins a file with these tensors (name, dtype, rank, shape), each name once, in any order; the
 * header is written. It has its name once it is finished (pst_file_begin). Errors: PST_ERR_IO with
 * output.write; output.form for more than a header may have.
 */
pst_status pst_st_create(const char *path, const struct pst_st_tensor *tensors, uint32_t n,
                         const struct pst_st_pair *metadata, uint32_t n_metadata,
                         struct pst_st_writer **ret_writer, struct pst_error *err);
/* The tensor of that place in the list given: its place in the file's data is settled. */
const struct pst_st_tensor *pst_st_place(const struct pst_st_writer *writer, uint32_t tensor);
/* The bytes in front of the data; bytes of the whole file. */
const void *pst_st_header(const struct pst_st_writer *writer, uint64_t *ret_bytes);
uint64_t pst_st_file_bytes(const struct pst_st_writer *writer);
/* A piece of the data of a tensor of the list given. Any thread; any order. */
pst_status pst_st_write(const struct pst_st_writer *writer, uint32_t tensor, uint64_t offset,
                        const void *data, uint64_t bytes, struct pst_error *err);
/* Fsync, rename, fsync of the folder. Who calls it has written all. Frees the writer. */
pst_status pst_st_finish(struct pst_st_writer *writer, struct pst_error *err);
/* No file stays. Frees the writer; accepts NULL. */
void pst_st_abandon(struct pst_st_writer *writer);

#endif
