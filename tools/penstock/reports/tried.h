/* SPDX-License-Identifier: Apache-2.0
 *
 * The trials of a search, in memory and, if a path is given, in a file that gets a line for each
 * trial. A search can resume from the file.
 */
#ifndef PST_REPORTS_TRIED_H
#define PST_REPORTS_TRIED_H

#include "base/hash.h"
#include "reports/record_file.h"
#include "tune/trial.h"

struct pst_tried_one {
    uint32_t combination;
    struct pst_trial trial;
};

struct pst_tried {
    size_t n, capacity;
    struct pst_tried_one *all;  /* in the order in which they came */
    uint32_t *places, n_places; /* hashed by combination: place in `all` + 1 */
    struct pst_record_file file;
};

/*
 * path NULL: there is no file. One that is there is read, the digest of what is tried must be its
 * own: config.value otherwise, as of a line that is no record; the last line may be incomplete. A
 * record has no plan and no remarks.
 */
pst_status pst_tried_open(struct pst_tried *tried, const char *path, const struct pst_hash *digest,
                          struct pst_error *err);
/* NULL: it has not been tried. */
struct pst_trial *pst_tried_find(const struct pst_tried *tried, uint32_t combination);
/* Takes the trial over. */
void pst_tried_add(struct pst_tried *tried, uint32_t combination, const struct pst_trial *trial);
/* Like pst_record_file_close. */
pst_status pst_tried_finish(struct pst_tried *tried, struct pst_error *err);

#endif
