/* SPDX-License-Identifier: Apache-2.0
 *
 * One parameter's value: from TOML, from the text of a default, against its range. Internal to this
 * folder.
 */
#ifndef PST_CONFIG_VALUE_H
#define PST_CONFIG_VALUE_H

#include "config/config.h"

struct pst_value {
    uint32_t type; /* PST_PARAM_* */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *string;
        uint32_t word;  /* PST_PARAM_ENUM: index */
        uint64_t units; /* PST_PARAM_BYTES, _TIME, _RATE */
    } as;
};

/* Bytes and alignment of the C field; 0 for a type that does not exist. */
size_t pst_value_size(uint32_t type);
void pst_value_store(const struct pst_value *value, void *field);

/* The default's text, or one end of a range. False when it is not of that type. */
bool pst_value_parse(uint32_t type, const char *range, const char *text,
                     struct pst_value *ret_value);

/* False when a node is of the wrong kind for that type; why then holds the rest of a sentence that
   starts with the key: "must be an integer, not a string". A list of integers is read as a string,
   "1,2", which then has its place in `why`. */
bool pst_value_read(const struct pst_param *row, const struct pst_config_node *node,
                    struct pst_value *ret_value, char why[512]);

/* Inside the row's range? why as above: "must be at least 1, not 0". */
bool pst_value_in_range(const struct pst_param *row, const struct pst_value *value, char why[512]);

/* Can the range text be understood, is low <= high, are the words of an enum distinct? */
bool pst_value_range_sound(uint32_t type, const char *range);

#endif
