/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that grows by whole records while a run goes on: each is written at once, and what a
 * failed write left of it is cut off again. The first failure is told on standard error; after it
 * nothing is written, and the run goes on; closing the file fails.
 */
#ifndef PST_REPORTS_RECORD_FILE_H
#define PST_REPORTS_RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct pst_record_file {
    int fd; /* -1: it takes nothing, or nothing any more */
    const char *path;
    uint64_t bytes; /* of whole records */
    bool made;      /* it was not there before */
    int lost_errno; /* why records were lost; 0: none were */
};

/* Makes the file, or appends to it; path is the caller's and stays. PST_ERR_IO:
   output.write. */
pst_status pst_record_file_open(struct pst_record_file *file, const char *path,
                                struct pst_error *err);
void pst_record_file_add(struct pst_record_file *file, const void *record, size_t length);
/* A file that was made and got nothing is removed. Closing again is allowed. output.write (exit 1)
   where records were lost; err may be NULL. */
pst_status pst_record_file_close(struct pst_record_file *file, struct pst_error *err);

#endif
