/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes in the child's messages. A plugin may have written there too: lengths are limits, not
 * promises, and every text gets its end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "host/child_run.h"

void pst_worker_reader_finish(struct pst_worker_reader *reader)
{
    free(reader->body);
    free(reader->plan);
    memset(reader, 0, sizeof *reader);
}

static bool head_is_sound(const struct pst_worker_reader *reader)
{
    const struct pst_worker_head *head = &reader->head;
    bool answered = reader->plan != NULL || reader->has_error;

    if (head->magic != PST_WORKER_MAGIC || answered) {
        return false;
    }
    switch (head->type) {
    case PST_WORKER_STARTED:
        return head->length == 0;
    case PST_WORKER_CALL:
        return head->length == sizeof reader->plugin;
    case PST_WORKER_LOG:
        return head->length > sizeof(uint32_t) && head->length <= PST_WORKER_LOG_BYTES;
    case PST_WORKER_PLAN:
        return head->length > 0 && head->length <= PST_WORKER_PLAN_BYTES;
    case PST_WORKER_ERROR:
        return head->length == sizeof(struct pst_error);
    default:
        return false;
    }
}

static void take_error(struct pst_worker_reader *reader)
{
    struct pst_error *e = &reader->error;

    memcpy(e, reader->body, sizeof *e);
    e->kind[sizeof e->kind - 1] = '\0';
    e->message[sizeof e->message - 1] = '\0';
    e->file[sizeof e->file - 1] = '\0';
    e->hint[sizeof e->hint - 1] = '\0';
    e->details[sizeof e->details - 1] = '\0';
    pst_text_make_plain(e->kind);
    pst_text_make_plain(e->message);
    pst_text_make_plain(e->hint);
    reader->has_error = true;
    /* A status and an exit code of ours, a word for tools, and a message. */
    reader->broken = e->status >= PST_OK || e->status < PST_ERR_BUG || e->exit_code < 0 ||
                     (e->exit_code > 4 && e->exit_code != 70) || e->kind[0] == '\0' ||
                     e->kind[strspn(e->kind, "abcdefghijklmnopqrstuvwxyz-.")] != '\0' ||
                     e->message[0] == '\0';
}

static void take_log(const struct pst_worker_reader *reader)
{
    const char *area = reader->body + sizeof(uint32_t);
    size_t n = strlen(area); /* there is a NUL behind the body */
    uint32_t level;

    memcpy(&level, reader->body, sizeof level);
    if (sizeof level + n < reader->head.length) {
        pst_log(level, area, "%s", area + n + 1);
    }
}

static void take_message(struct pst_worker_reader *reader)
{
    switch (reader->head.type) {
    case PST_WORKER_STARTED:
        reader->started = true;
        break;
    case PST_WORKER_CALL:
        memcpy(&reader->plugin, reader->body, sizeof reader->plugin);
        break;
    case PST_WORKER_LOG:
        take_log(reader);
        break;
    case PST_WORKER_PLAN:
        reader->plan = reader->body;
        reader->plan_length = reader->got;
        reader->body = NULL;
        reader->room = 0;
        break;
    default:
        take_error(reader);
    }
    reader->got = 0;
    reader->head_got = 0;
}

/* Room for n more bytes of the body and a NUL. */
static void make_room(struct pst_worker_reader *reader, size_t n)
{
    size_t room = reader->room > 0 ? reader->room : 16384;

    while (room < reader->got + n + 1) {
        room *= 2;
    }
    if (room > reader->room) {
        reader->body = pst_resize(reader->body, room, 1);
        reader->room = room;
    }
}

void pst_worker_reader_take(struct pst_worker_reader *reader, const char *bytes, size_t n)
{
    while (n > 0 && !reader->broken) {
        size_t k = sizeof reader->head - reader->head_got;

        if (k > 0) {
            k = k < n ? k : n;
            memcpy((char *)&reader->head + reader->head_got, bytes, k);
            reader->head_got += k;
            bytes += k;
            n -= k;
            if (reader->head_got < sizeof reader->head) {
                return;
            }
            reader->broken = !head_is_sound(reader);
            if (reader->broken) {
                return;
            }
        }
        k = reader->head.length - reader->got < n ? (size_t)(reader->head.length - reader->got) : n;
        make_room(reader, k);
        memcpy(reader->body + reader->got, bytes, k);
        reader->got += k;
        reader->body[reader->got] = '\0';
        bytes += k;
        n -= k;
        if (reader->got == reader->head.length) {
            take_message(reader);
        }
    }
}
