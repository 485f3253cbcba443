/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters as table rows. The host parses the TOML, checks type and range, fills the plugin's own
 * config struct and prints the help, all without running plugin code.
 */
#ifndef PENSTOCK_PARAMS_H
#define PENSTOCK_PARAMS_H

#include "abi.h"

/* C type of the field that a row fills, and what TOML may give it. */
enum {
    PST_PARAM_BOOL = 1,   /* bool */
    PST_PARAM_INT = 2,    /* int64_t */
    PST_PARAM_FLOAT = 3,  /* double, finite; an integer is accepted */
    PST_PARAM_STRING = 4, /* const char *; lives as long as the config struct */
    PST_PARAM_ENUM = 5,   /* uint32_t: index of the word in `range`, written "a|b|c"; where
                             "true" or "false" is one, booleans are taken, too */
    PST_PARAM_BYTES = 6,  /* uint64_t: a plain number is bytes, a string carries a unit: "16 GiB" */
    PST_PARAM_TIME = 7,   /* uint64_t nanoseconds: a plain number is seconds; "5 us", "1.5 ms" */
    PST_PARAM_RATE = 8,   /* uint64_t bytes per second: a plain number, or "900 MB/s" */
    PST_PARAM_PATH = 9    /* const char *, like a string; a relative path in a config is meant from
                             the folder of that config and comes rewritten. Since 1.1 */
};

struct pst_param {
    const char *key;     /* TOML key = name of the C field */
    const char *initial; /* default as text; NULL: the key is required */
    const char *range; /* numbers: "1..64", either end may be missing; enums: the words; or NULL */
    const char *doc;   /* one sentence, with the unit; mandatory */
    uint32_t type;     /* PST_PARAM_* */
    uint32_t offset;   /* offsetof(struct my_config, key) */
};

/* One row for `field`, whose TOML key has the same name. */
#define PST_PARAM(struct_type, field, param_type, initial_text, range_text, doc_text)              \
    {                                                                                              \
#field, initial_text, range_text, doc_text, param_type,                                    \
            (uint32_t)offsetof(struct_type, field)                                                 \
    }

#endif
