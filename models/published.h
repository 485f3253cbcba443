/* SPDX-License-Identifier: Apache-2.0
 *
 * The published form of the weights of a model family: names of tensors, their memory layout, and
 * the config.json beside them. One text file per family (families/MODEL.toml, docs/weights.md)
 * serves import and export.
 */
#ifndef PST_MODELS_PUBLISHED_H
#define PST_MODELS_PUBLISHED_H

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "graph/published.h"

/* A list of texts is one text here, a line for each: JSON and names may have commas. */
#define PST_PUBLISHED_BREAK "\n"

/* This many. */
static inline uint32_t pst_published_count(const char *texts)
{
    uint32_t n = 1;

    for (; *texts != '\0'; texts++) {
        n += *texts == PST_PUBLISHED_BREAK[0];
    }
    return n;
}

/* The one after the first, or NULL. */
static inline const char *pst_published_next(const char *texts)
{
    texts += strcspn(texts, PST_PUBLISHED_BREAK);
    return *texts == '\0' ? NULL : texts + 1;
}

/* Parameters of that name, and their tensors. '#' stands for a number, '*' at the end for any rest;
   what they stand for goes into the other name. With '@' in theirs the parameter's first axis is
   one tensor after the other, and '@' is the place on it. */
struct pst_published_row {
    const char *own;
    const char *theirs; /* several: side by side in the parameter's last axis */
    uint32_t layout;    /* enum pst_published_layout */
    const char *parts;  /* keys of [model], one for each of theirs: how wide they are to each other,
                           0 standing for the first; NULL: equally */
    bool bare;          /* it never has the family's prefix */
    const char *root;   /* key of [model]: the (first) tensor times that value's square root is the
                           parameter; NULL: they are equal */
    bool inverse;       /* divided by it */
    const char *when;   /* as in struct pst_published_key */
};

/* The name that some files have in the place of another, by how it ends. */
struct pst_published_alias {
    const char *end, *other;
};

/* The texts that '#' and '*' match in a name. */
struct pst_published_blanks {
    char number[24];
    const char *rest; /* within the name */
};

/* Does a name of ours fit the pattern? '#' in the name counts as a digit, so a pattern fits another
   one only if it fits all names that the other does. */
bool pst_published_fits(const char *pattern, const char *name,
                        struct pst_published_blanks *ret_blanks);

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
    const char *fixed;  /* JSON; several texts mean the same */
    uint32_t use;       /* enum pst_published_use */
    int64_t times;      /* theirs is so many times the model's value */
    const char *over;   /* and divided by this key of [model]; NULL: not */
    const char *set;    /* the key that is to be set where it differs; NULL: own, or none */
    bool final;         /* no key of [model] can be set where it differs */
    const char *absent; /* what it is where the file does not say it: JSON, or '@' and another key
                           of the file; NULL: nothing */
    const char *absent_by; /* the same for files of one model type: "TYPE=JSON", several */
    const char *null;      /* what null means, JSON; NULL: that the key is missing */
    const char *below;     /* key of [model]: from there a number below 0 counts down */
    const char *elsewhere; /* keys of the file that say it as well */
    const char *from;      /* key of [model]: numbers from its value on mean the same as `fixed` */
    const char *unless; /* key: where it is false or absent this means nothing; files of the model
                           types after '!' have no such key */
    const char *unread_by; /* model type of files for which this means nothing */
    const char *when;      /* for models with this boolean or number of [model] that is not zero;
                              "KEY=WORD": with that word; '!' in front: for the others; several that
                              '&' parts: with all of them. NULL: for all.
                              Of rows with one name the first that is for the model counts */
};

/* A tensor that repeats a parameter, as files have it where the head is the table of words. */
struct pst_published_twin {
    const char *end; /* of its name */
    const char *own; /* the parameter */
};

/* Something that no published model computes; models that do cannot be exported. */
struct pst_published_lack {
    const char *when; /* as in struct pst_published_key */
    const char *what; /* for the message */
};

/* A family without a file, so that a message can say whose weights these are. */
struct pst_published_other {
    const char *type, *name; /* model_type and proper name */
    const char *begin;       /* beginning of tensor names that no other family has; NULL: none */
};

/* Ends of lists are rows of NULL. */
struct pst_published {
    const char *model;  /* [model] use; NULL: of no family: names and layouts are the model's own */
    const char *prefix; /* of most names; files without it are read, too */
    const struct pst_published_row *tensors; /* the first that fits a parameter counts */
    const struct pst_published_alias *aliases;
    const struct pst_published_twin *twins;
    const char *const *ignored;           /* ends of names of tensors that are no weights */
    const struct pst_published_key *keys; /* NULL: no config.json */
    const char *const *harmless;          /* keys of config.json that change no result */
    const struct pst_published_lack *unpublished;
    const char *const *families;              /* models with a file */
    const struct pst_published_other *others; /* families without */
};

/*
 * Reads families/MODEL.toml, or `path` if it is not empty, and families/common.toml, which every
 * family has. A model without a file has its own names and layouts. The result lives in the arena.
 * Errors, PST_ERR_CONFIG with file and line: those of pst_config_load; config.key, config.value.
 */
pst_status pst_published_read(const char *path, const char *model, struct pst_arena *arena,
                              const struct pst_published **ret_family, struct pst_error *err);

#endif
