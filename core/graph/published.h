/* SPDX-License-Identifier: Apache-2.0
 *
 * The published form of the weights of a model family: names of tensors, their memory layout, and
 * the config.json beside them. One table per family serves import and export.
 */
#ifndef PST_GRAPH_PUBLISHED_H
#define PST_GRAPH_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/ops.h>

enum pst_published_layout {
    PST_LAYOUT_SAME = 0,
    PST_LAYOUT_TORCH, /* matrices [out, in] where the model has [in, out], images [out, in, height,
                         width] where it has [height, width, in, out]; vectors are the same */
    PST_LAYOUT_ROWS,  /* the same; a file may have more rows, of which the first are taken */
    PST_LAYOUT_TURNED /* [in, out, height, width], height and width backwards, where the model has
                         [height, width, in, out] */
};

/* --- of a file that a model was read from ----------------------------------------------------- */

enum pst_tensor_kind { PST_TENSOR_REAL, PST_TENSOR_INTEGER, PST_TENSOR_TRUTH };
enum pst_tensor_remark {
    PST_TENSOR_NAMED,
    PST_TENSOR_GUESSED, /* the name follows from the nodes that read it */
    PST_TENSOR_NAMELESS /* nothing says what the module calls it */
};

/* A tensor of the module that was exported. */
struct pst_initial_tensor {
    const char *name;
    const char *of_file; /* its name in the file */
    const char *own;     /* parameter, or operator, whose values it has; NULL: a constant */
    uint32_t state;      /* of the operator; PST_NONE: it is a parameter */
    uint32_t value;      /* in the file */
    uint32_t kind, remark;
    bool needed;     /* a constant: results depend on it */
    uint32_t layout; /* enum pst_published_layout */
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK];
    uint64_t first; /* elements before those of the parameter, which may be fewer */
};

struct pst_published_file {
    const char *path;
    struct pst_initial_tensor *tensors; /* those of one value: the first is its name in the file */
    uint32_t n_tensors, n_absent;
    const char **absent; /* names of the module that the file does not have */
};

/* --- of a family ------------------------------------------------------------------------------ */

/* Parameters of that name, and their tensors. '#' stands for a number, '*' at the end for any rest;
   what they stand for goes into the other name. With '@' in theirs the parameter's first axis is
   one tensor after the other, and '@' is the place on it. */
struct pst_published_row {
    const char *own;
    const char *theirs; /* several, parted by '|': side by side in the parameter's last axis */
    uint32_t layout;    /* enum pst_published_layout */
    const char *parts;  /* keys of [model], one for each of theirs, parted by '|': how wide they are
                           to  each other, 0 standing for the first; NULL: equally */
    bool bare;          /* it never has the family's prefix */
    const char *when;   /* as in struct pst_published_key */
    const char *root;   /* key of [model]: the (first) tensor times that value's square root is the
                           parameter; NULL: they are equal */
    bool inverse;       /* divided by it */
};

/* The name that some files have in the place of another, by how it ends. */
struct pst_published_alias {
    const char *end, *other;
};

enum pst_published_use {
    PST_KEY_SIZE = 0, /* written; shapes tell the rest */
    PST_KEY_FREE,     /* written; weights mean the same with another value */
    PST_KEY_MUST,     /* written; what the model's results depend on and no shape tells */
    PST_KEY_READ      /* the same, but not written: other versions spell it so */
};

/* A value of config.json. */
struct pst_published_key {
    const char *theirs; /* dots lead into objects */
    const char *own;    /* key of [model]; NULL: the model has always the value `fixed` */
    const char *fixed;  /* JSON; several texts that mean the same are parted by '|' */
    uint32_t use;       /* enum pst_published_use */
    uint32_t times;     /* theirs is so many times the model's value; 0: once */
    const char *over;   /* and divided by this key of [model]; NULL: not */
    const char *set;    /* the key that is to be set where it differs; "": none can be; NULL: own */
    const char *absent; /* what it is where the file does not say it: JSON, or '@' and another key
                           of the file; NULL: nothing */
    const char *elsewhere; /* keys of the file that say it as well, parted by '|' */
    const char *from;      /* key of [model]: numbers from its value on mean the same as `fixed` */
    const char *unless; /* key: where it is false or absent this means nothing; files of the model
                           types after '!' have no such key */
    const char *unread_by; /* model type of files for which this means nothing */
    const char *when;      /* for models with this boolean or number of [model] that is not zero;
                              "KEY=WORD": with that word; '!' in front: for the others; several that
                              '&' parts: with all of them. NULL: for all.
                              Of rows with one name the first that is for the model counts */
};

/* Something that no published model computes; models that do cannot be exported. */
struct pst_published_lack {
    const char *when; /* as in struct pst_published_key */
    const char *what; /* for the message */
};

/* Ends of lists are rows of NULL. */
struct pst_published {
    const char *model;  /* [model] use */
    const char *prefix; /* of most names; files without it are read, too. NULL: none */
    const struct pst_published_row *rows; /* the first that fits a parameter counts */
    const struct pst_published_alias *aliases;
    const char *const *ignored; /* ends of names of tensors that are no weights, or twice there */
    const struct pst_published_key *keys; /* NULL: no config.json */
    const char *const *harmless; /* keys of config.json that change no result; NULL: none */
    const struct pst_published_lack *unpublished; /* NULL: none */
};

/* Ended by NULL. Other models use their own names and layouts. */
extern const struct pst_published *const pst_published[];

#endif
