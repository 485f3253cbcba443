/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files that TensorBoard reads: TFRecords (length, its masked CRC32C, data, their masked
 * CRC32C), each an Event in the wire format of Protocol Buffers. Of
 * tensorflow/core/util/event.proto and framework/summary.proto these are used: Event {1 wall_time
 * double, 2 step int64, 3 file_version string, 5 summary}; Summary {1 value, repeated}; Value {1
 * tag string, 2 simple_value float}.
 */
#ifndef PST_REPORTS_EVENT_FILE_H
#define PST_REPORTS_EVENT_FILE_H

#include "reports/record_file.h"

enum { PST_EVENT_SCALARS = 16, PST_EVENT_TAG = 64 }; /* most of an event; longest tag */

struct pst_scalar {
    const char *tag;
    double value;
};

struct pst_event_file {
    struct pst_record_file file;
    char *path;
};

/* A file of this run, with a name of its own, in the folder, which is made where it is not there,
   with those above it. PST_ERR_IO: output.write. Close it. */
pst_status pst_event_file_open(struct pst_event_file *events, const char *folder,
                               struct pst_error *err);
/* At most PST_EVENT_SCALARS of one step. Allocates nothing. */
void pst_event_file_add(struct pst_event_file *events, uint64_t step,
                        const struct pst_scalar *scalars, uint32_t n);
/* Like pst_record_file_close. */
pst_status pst_event_file_close(struct pst_event_file *events, struct pst_error *err);

/* CRC32C (Castagnoli; RFC 3720, B.4). */
uint32_t pst_crc32c(const void *data, size_t length);

#endif
