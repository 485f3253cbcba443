/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers behind data.h: kinds of data, built in or a plugin's, behind one interface. Of the
 * built in ones a store is what the files of one key hold, as a stream of tokens (data_tokens.c) or
 * as records (data_records.c); the formats of files (data_text.c, data_token_files.c,
 * data_arrays.c) say where in them that is. Sources are stretches of stores, and the order of their
 * samples is decided in data_order.c. A plugin has samples by their number (data_plugin.c).
 *
 *     data.c --kind->read--> data_order.c --> data_tokens.c | data_records.c --> files
 *                       `--> data_plugin.c --> read() of the plugin
 */
#ifndef PST_DATA_DATA_IMPL_H
#define PST_DATA_DATA_IMPL_H

#include "data/data.h"
#include "data/tokenizer.h"

struct pst_store;
struct pst_column;
struct pst_part;
struct pst_paths;

/*
 * A kind of data. Its first functions are those of pst.data/1 (<penstock/data.h>), with the host's
 * error in the place of host->fail, and with numbers of samples in the run. They may assume that
 * data.c has filled the shape; what open has made when it fails, close frees.
 */
struct pst_data_kind {
    const char *id; /* data.kind; NULL: any plugin */
    /* Makes the checks that need no file; NULL: there are none. */
    pst_status (*prepare)(const struct pst_job *job, struct pst_data *data, struct pst_error *err);
    /* Sets data->sequences. */
    pst_status (*open)(const struct pst_job *job, struct pst_data *data, struct pst_error *err);
    /* X and targets of samples first ... first + n - 1. Any thread. */
    pst_status (*read)(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                       void *const *ret_inputs, struct pst_error *err);
    void (*close)(struct pst_data *data);

    /* Of kinds of files: the keys of [data] that not every kind reads, between spaces. */
    const char *reads;
    bool tokens; /* targets are made from a stream of tokens; else records have labels */
    /* Opens what one key (for messages: "data.train") names into a store. */
    pst_status (*open_store)(const struct pst_job *job, struct pst_data *data, const char *patterns,
                             const char *labels, const char *key, struct pst_store *store,
                             struct pst_error *err);
    /* Finds tokens in part->file; *ret_element was that of data.dtype. NULL: of text. */
    pst_status (*open_tokens)(struct pst_part *part, uint32_t *ret_element, struct pst_error *err);
    pst_status (*find)(const char *patterns, const char *key, struct pst_paths *ret_paths,
                       struct pst_error *err); /* NULL: pst_paths_find */
    /* Finds features, or labels, in part->file. */
    pst_status (*open_column)(const struct pst_data_kind *kind, bool labels,
                              struct pst_column *column, struct pst_part *part,
                              struct pst_error *err);
    char *(*labels_beside)(const char *path); /* file of labels for one of features; NULL: none */
    uint32_t n_labels;                        /* before the features of a record; 0: own files */
    const char *mean, *std;                   /* of the pixels of the training set, from 0 to 1 */
    float scale;                              /* what features are divided by first */
};

/* The kind of that id; one that is not built in is a plugin's. */
const struct pst_data_kind *pst_data_kind_of(const char *id);

/* --- files ------------------------------------------------------------------------------------ */

/* A file that is read in place. */
struct pst_data_file {
    char *path;
    int fd; /* -1: opened for each read, for there are many */
    uint64_t size;
};

struct pst_paths {
    char **paths;
    uint32_t n;
};

/*
 * All files that the files and globs of `patterns`, separated by ':' or newline, name, in sorted
 * order, each once (links to a file that is already there are left out). A name without a file may
 * lack `ending` (NULL: none). `key` is the name of what holds them, for messages: "data.train".
 */
pst_status pst_paths_find(const char *patterns, const char *key, const char *ending,
                          struct pst_paths *ret_paths, struct pst_error *err);
void pst_paths_finish(struct pst_paths *paths);

/* *n_open counts what is kept open. Errors: input.path. */
pst_status pst_data_file_open(const char *path, uint32_t *n_open, struct pst_data_file *ret_file,
                              struct pst_error *err);
void pst_data_file_close(struct pst_data_file *file);
/* Any thread. Bytes that are not there, as the file got shorter, are input.syntax. */
pst_status pst_data_file_read(const struct pst_data_file *file, uint64_t offset, void *ret_bytes,
                              uint64_t n, struct pst_error *err);
/* The file holds less, or other things, than it says. */
pst_status pst_data_file_fail(const struct pst_data_file *file, struct pst_error *err,
                              const char *format, ...) __attribute__((format(printf, 3, 4)));

/* data_forms.c: the first bytes say that the file is compressed, or of a form that this kind of
   data does not read: input.syntax, with the command that makes of it what is read. */
pst_status pst_data_check_file(const char *kind, const struct pst_data_file *file,
                               struct pst_error *err);
/* Checks a text file in memory in the same way; zero bytes are refused, too. */
pst_status pst_data_check_text(const char *path, const char *text, uint64_t size,
                               struct pst_error *err);
/* The hint for a list of JSON in the place of lines. */
void pst_data_hint_list(const char *path, struct pst_error *err);

/* --- elements --------------------------------------------------------------------------------- */

/* Types of elements in files; all are little-endian. */
enum pst_element {
    PST_ELEMENT_U8 = 0,
    PST_ELEMENT_I8,
    PST_ELEMENT_U16,
    PST_ELEMENT_I16,
    PST_ELEMENT_U32,
    PST_ELEMENT_I32,
    PST_ELEMENT_U64,
    PST_ELEMENT_I64,
    PST_ELEMENT_F32,
    PST_ELEMENT_F64
};

static inline uint32_t pst_element_bytes(uint32_t element)
{
    return element >= PST_ELEMENT_F32 ? element == PST_ELEMENT_F32 ? 4u : 8u : 1u << (element / 2);
}

/* Element i of whole numbers; a u64 beyond the range of the result is negative. */
int64_t pst_element_whole(uint32_t element, const void *values, uint64_t i);

/* Numbers of a list such as "0.5, 2", at most n, maybe all above 0. Returns how many there are; 0:
   it is no such list. */
uint64_t pst_data_read_numbers(const char *text, uint64_t n, bool positive, double *ret_numbers);

/* --- parts of files --------------------------------------------------------------------------- */

/* Tokens, or records, that follow each other in a file or in memory. An element of a column is at
   offset + record * stride. */
struct pst_part {
    struct pst_data_file file; /* path NULL: in `held` */
    const void *held;
    uint64_t offset, stride;
    uint64_t first, n; /* number of the first among those of all parts; how many there are */
};

struct pst_parts {
    struct pst_part *parts;
    uint32_t n_parts;
    uint64_t n; /* in all */
};

/* Adds a part after the others; it takes the file. */
void pst_parts_add(struct pst_parts *parts, const struct pst_part *part);
/* The part that has token, or record, `at`. */
const struct pst_part *pst_parts_find(const struct pst_parts *parts, uint64_t at);
void pst_parts_finish(struct pst_parts *parts);

/* --- streams of tokens ------------------------------------------------------------------------ */

struct pst_stream {
    uint32_t element;
    struct pst_parts parts;
    void *memory; /* what `held` points into; owned */
};

void pst_stream_finish(struct pst_stream *stream);

/* Tokens begin ... begin + context, the last as a target alone. room: (context + 1) elements. */
pst_status pst_stream_read(const struct pst_stream *stream, uint64_t begin, uint64_t context,
                           uint64_t vocab, void *room, int32_t *ret_x, int32_t *ret_targets,
                           struct pst_error *err);

/* --- records ---------------------------------------------------------------------------------- */

enum { PST_COLUMN_RANK = 8 };

struct pst_column {
    uint32_t element;
    uint32_t rank;
    uint64_t dims[PST_COLUMN_RANK], elems; /* of a record */
    bool planar;                           /* dims are channels, rows, columns for certain */
    struct pst_parts parts;
};

/* How a record becomes inputs of the model. scale, mean and std are applied in f32. */
struct pst_records {
    struct pst_column x, labels;
    uint32_t
        *from;   /* element of the file for each of the model's, PST_NONE: black; NULL: the same */
    float scale; /* what features are divided by first */
    float *mean, *std; /* [n_channels]: subtracted, divided by then; NULL: neither */
    uint64_t n_channels;
    uint64_t labels_at, room_bytes; /* of what a record is read into */
    int64_t ignored;                /* a class of targets without a loss; -1: no further one */
};

/* Checks columns against the model, and makes the rest. mean, std: one number or one for each
   channel, separated by ','; "": neither. */
pst_status pst_records_fit(struct pst_records *records, const struct pst_sample_shape *shape,
                           const char *mean, const char *std, struct pst_error *err);
/* room: room_bytes. */
pst_status pst_records_read(const struct pst_records *records, const struct pst_sample_shape *shape,
                            uint64_t record, void *room, void *ret_x, void *ret_targets,
                            struct pst_error *err);
void pst_records_finish(struct pst_records *records);

/* --- stores and sources ----------------------------------------------------------------------- */

struct pst_store {
    struct pst_stream stream;
    struct pst_records records;
};

/* Part of a store, as samples of one split. */
struct pst_stretch {
    const struct pst_store *store;
    uint64_t begin, length; /* tokens; records */
    uint64_t n;             /* samples of an epoch */
    uint64_t scattered;     /* > 0: records stand in a fixed random order of all so many */
};

enum { PST_MAX_SOURCES = 256 };

/* Which source each sample comes from: a cycle that keeps as close to the weights as can be. */
struct pst_blend {
    uint32_t length;                 /* 0: there is one source */
    uint16_t *source;                /* of each place */
    uint32_t *before;                /* how many samples of that source the cycle has before it */
    uint32_t count[PST_MAX_SOURCES]; /* of each source, in a cycle */
};

struct pst_data {
    const struct pst_data_kind *kind;
    uint64_t seed;
    int32_t ignored;               /* a class of targets that counts nothing, beside -1 */
    struct pst_sample_shape shape; /* of whole sequences */
    uint64_t sequences[2];         /* of each split before they repeat; UINT64_MAX: they never do */
    uint32_t slices, microbatch;   /* of each of these; sequences whose slices lie side by side */
    uint64_t reader;               /* digest of what reads it; 0: penstock itself */
    bool counted, over_tokens;     /* a number stands after targets; it is that of all samples */
    struct pst_tensor *inputs;     /* of shape where the graph's are others; else NULL */

    struct pst_data_plugin *plugin;  /* the rest is of kinds of files */
    struct pst_tokenizer *tokenizer; /* NULL: tokens are bytes */
    const char *field;               /* member of lines of JSON that is text; NULL: by the name */
    struct pst_store *stores;        /* one for each source, and one for data.valid */
    uint32_t n_stores;
    struct pst_stretch *sources[2]; /* by enum pst_split */
    uint32_t n_sources[2];
    struct pst_blend blend;
    uint32_t n_open;     /* files */
    uint64_t room_bytes; /* to read a sample */
};

/* --- formats of files (struct pst_data_kind) -------------------------------------------------- */

pst_status pst_data_open_text(const struct pst_job *job, struct pst_data *data,
                              const char *patterns, const char *labels, const char *key,
                              struct pst_store *store, struct pst_error *err);
pst_status pst_data_open_tokens(const struct pst_job *job, struct pst_data *data,
                                const char *patterns, const char *labels, const char *key,
                                struct pst_store *store, struct pst_error *err);
pst_status pst_data_open_arrays(const struct pst_job *job, struct pst_data *data,
                                const char *patterns, const char *labels, const char *key,
                                struct pst_store *store, struct pst_error *err);
pst_status pst_raw_open(struct pst_part *part, uint32_t *ret_element, struct pst_error *err);
pst_status pst_llmc_open(struct pst_part *part, uint32_t *ret_element, struct pst_error *err);
pst_status pst_megatron_open(struct pst_part *part, uint32_t *ret_element, struct pst_error *err);
pst_status pst_megatron_find(const char *patterns, const char *key, struct pst_paths *ret_paths,
                             struct pst_error *err);
pst_status pst_npy_open(const struct pst_data_kind *kind, bool labels, struct pst_column *column,
                        struct pst_part *part, struct pst_error *err);
pst_status pst_cifar_open(const struct pst_data_kind *kind, bool labels, struct pst_column *column,
                          struct pst_part *part, struct pst_error *err);
pst_status pst_idx_open(const struct pst_data_kind *kind, bool labels, struct pst_column *column,
                        struct pst_part *part, struct pst_error *err);
char *pst_idx_labels_beside(const char *path);

/* Text without a tokenizer is read as bytes. */
static inline bool pst_data_is_text(const struct pst_data *data)
{
    return data->kind->open_store == pst_data_open_text;
}

/* Records have labels; targets of all else are made from the tokens. */
static inline bool pst_data_has_labels(const struct pst_data *data)
{
    return data->kind->open_store == pst_data_open_arrays;
}

/* The least of the vocabularies of tokens and of targets. */
static inline uint64_t pst_data_vocab(const struct pst_data *data)
{
    return data->shape.vocab < data->shape.classes ? data->shape.vocab : data->shape.classes;
}

/* --- ways to read: of struct pst_data_kind ---------------------------------------------------- */

/* data_kinds.c: makes the checks that need no files, and opens the tokenizer. */
pst_status pst_files_prepare(const struct pst_job *job, struct pst_data *data,
                             struct pst_error *err);
/* data_order.c */
pst_status pst_files_open(const struct pst_job *job, struct pst_data *data, struct pst_error *err);
pst_status pst_files_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                          void *const *ret_inputs, struct pst_error *err);
void pst_files_close(struct pst_data *data);

/* data_plugin.c */
pst_status pst_plugin_data_open(const struct pst_job *job, struct pst_data *data,
                                struct pst_error *err);
pst_status pst_plugin_data_read(const struct pst_data *data, uint32_t split, uint64_t first,
                                uint32_t n, void *const *ret_inputs, struct pst_error *err);
void pst_plugin_data_close(struct pst_data *data);

/* data_order.c: the number in its split of sample `index` of the run, of n samples that are
   shuffled in training, in each epoch anew. */
uint64_t pst_data_shuffle(uint64_t seed, uint32_t split, uint64_t n, uint64_t index);

/* Weights above 0. config.value: one of them is too small. */
pst_status pst_blend_init(struct pst_blend *blend, const double *weights, uint32_t n,
                          struct pst_error *err);
void pst_blend_finish(struct pst_blend *blend);

#endif
