/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/event_file.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/util.h"

/* --- TFRecords -------------------------------------------------------------------------------- */

enum { HEAD = 12, TAIL = 4, ROOM = HEAD + 64 + PST_EVENT_SCALARS * (PST_EVENT_TAG + 16) + TAIL };

uint32_t pst_crc32c(const void *data, size_t length)
{
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (uint32_t bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
        }
    }
    return ~crc;
}

/* So that the sum of what holds sums is none that means nothing. */
static uint32_t masked(const void *data, size_t length)
{
    const uint32_t crc = pst_crc32c(data, length);

    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

struct message {
    unsigned char bytes[ROOM];
    size_t length;
};

static void put_bytes(struct message *to, const void *bytes, size_t n)
{
    memcpy(to->bytes + to->length, bytes, n);
    to->length += n;
}

static void put_little(struct message *to, uint64_t value, uint32_t n_bytes)
{
    for (uint32_t i = 0; i < n_bytes; i++) {
        to->bytes[to->length++] = (unsigned char)(value >> 8 * i);
    }
}

static void put_record(struct pst_event_file *events, const struct message *event)
{
    struct message record = {.length = 0};

    put_little(&record, event->length, 8);
    put_little(&record, masked(record.bytes, 8), 4);
    put_bytes(&record, event->bytes, event->length);
    put_little(&record, masked(event->bytes, event->length), 4);
    pst_record_file_add(&events->file, record.bytes, record.length);
}

/* --- Protocol Buffers ------------------------------------------------------------------------- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(struct message *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        to->bytes[to->length++] = (unsigned char)(value | 0x80);
    }
    to->bytes[to->length++] = (unsigned char)value;
}

static void put_key(struct message *to, uint32_t field, uint32_t type)
{
    put_varint(to, field << 3 | type);
}

static void put_text(struct message *to, uint32_t field, const char *text, size_t length)
{
    put_key(to, field, BYTES);
    put_varint(to, length);
    put_bytes(to, text, length);
}

static void put_scalar(struct message *to, const struct pst_scalar *scalar)
{
    const float value = (float)scalar->value;
    const size_t length = strnlen(scalar->tag, PST_EVENT_TAG);
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_key(to, 1, BYTES);
    put_varint(to, 2 + length + 5); /* both fields, a tag's length being one byte */
    put_text(to, 1, scalar->tag, length);
    put_key(to, 2, FIXED32);
    put_little(to, bits, 4);
}

static struct message event_now(void)
{
    struct message event = {.length = 0};
    struct timespec now;
    double seconds;
    uint64_t bits;

    clock_gettime(CLOCK_REALTIME, &now);
    seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    memcpy(&bits, &seconds, sizeof bits);
    put_key(&event, 1, FIXED64);
    put_little(&event, bits, 8);
    return event;
}

/* The first of a file says which format it has. */
static void put_version(struct pst_event_file *events)
{
    static const char version[] = "brain.Event:2";
    struct message event = event_now();

    put_text(&event, 3, version, sizeof version - 1);
    put_record(events, &event);
}

void pst_event_file_add(struct pst_event_file *events, uint64_t step,
                        const struct pst_scalar *scalars, uint32_t n)
{
    struct message event = event_now(), summary = {.length = 0};

    if (events->file.bytes == 0) {
        put_version(events);
    }
    for (uint32_t i = 0; i < n && i < PST_EVENT_SCALARS; i++) {
        put_scalar(&summary, &scalars[i]);
    }
    put_key(&event, 2, VARINT);
    put_varint(&event, step);
    put_text(&event, 5, (const char *)summary.bytes, summary.length);
    put_record(events, &event);
}

/* --- the file --------------------------------------------------------------------------------- */

pst_status pst_event_file_open(struct pst_event_file *events, const char *folder,
                               struct pst_error *err)
{
    struct timespec now;
    char host[256] = "localhost";
    pst_status status;

    *events = (struct pst_event_file){.file = {.fd = -1}};
    status = pst_folder_make(folder, "the folder", err);
    if (status != PST_OK) {
        return status;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    gethostname(host, sizeof host - 1);
    events->path = pst_printf("%s/events.out.tfevents.%010lld.%s.%ld.%09ld", folder,
                              (long long)now.tv_sec, host, (long)getpid(), now.tv_nsec);
    return pst_record_file_open(&events->file, events->path, err);
}

pst_status pst_event_file_close(struct pst_event_file *events, struct pst_error *err)
{
    const pst_status status = pst_record_file_close(&events->file, err);

    free(events->path);
    events->path = NULL;
    events->file.lost_errno = 0;
    return status;
}
