/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes in the process's messages, and what plugins print. A plugin may have written there too:
 * lengths are limits, not promises, and every text gets its end.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "host/child.h"

#define TAIL_LINES 10
#define TAIL_BYTES 2048

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
    size_t n = strlen(area); /* there is a NUL after the body */
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

/* --- what plugins print: the last 64 KiB of it are kept ----------------------------------------*/

/* The plugin whose output follows the first n bytes. */
static uint32_t speaker_after(const struct pst_worker_output *output, size_t n)
{
    uint32_t plugin = output->plugin;

    for (size_t i = 0; i + 1 < n; i++) {
        if (output->bytes[i] == '\0') {
            plugin = (uint32_t)(output->bytes[++i] - '0');
        }
    }
    return plugin;
}

/* Drops all but the last 64 KiB; never the second half of a mark alone. */
static void shorten(struct pst_worker_output *output)
{
    size_t cut = output->length - PST_WORKER_OUTPUT_BYTES;

    if (output->bytes[cut - 1] == '\0') {
        cut++;
    }
    output->plugin = speaker_after(output, cut);
    output->length -= cut;
    output->dropped += cut;
    memmove(output->bytes, output->bytes + cut, output->length);
}

void pst_worker_output_take(struct pst_worker_output *output, const char *bytes, size_t n)
{
    while (n > 0) {
        size_t room = 2 * PST_WORKER_OUTPUT_BYTES - output->length, k = n < room ? n : room;

        memcpy(output->bytes + output->length, bytes, k);
        output->length += k;
        bytes += k;
        n -= k;
        if (output->length == 2 * PST_WORKER_OUTPUT_BYTES) {
            shorten(output);
        }
    }
    output->bytes[output->length] = '\0';
}

static void log_line(const char *line, size_t n, const struct pst_breadcrumb_page *page,
                     uint32_t plugin)
{
    struct pst_breadcrumb_plugin name;

    if (n > 0) {
        bool known = pst_breadcrumb_name(page, plugin, &name);

        pst_log(PST_LOG_INFO, known ? name.id : "plugin", "printed: %.*s", (int)n, line);
    }
}

void pst_worker_output_log(struct pst_worker_output *output, const struct pst_breadcrumb_page *page)
{
    uint32_t plugin;
    size_t begin = 0;

    if (output->length > PST_WORKER_OUTPUT_BYTES) {
        shorten(output);
    }
    if (output->dropped > 0) {
        pst_log(PST_LOG_INFO, "plugin", "%" PRIu64 " bytes that were printed before are left out",
                output->dropped);
    }
    plugin = output->plugin;
    for (size_t i = 0; i < output->length; i++) {
        if (output->bytes[i] == '\n' || output->bytes[i] == '\0') {
            log_line(output->bytes + begin, i - begin, page, plugin);
            if (output->bytes[i] == '\0') {
                plugin = (uint32_t)((unsigned char)output->bytes[++i] - '0');
            }
            begin = i + 1;
        }
    }
    if (begin < output->length) {
        log_line(output->bytes + begin, output->length - begin, page, plugin);
    }
}

/* Where the last lines begin. */
static size_t tail_begin(const struct pst_worker_output *output)
{
    size_t lines = 0, i = output->length;

    while (i > 0 && output->length - i < TAIL_BYTES) {
        if (output->bytes[i - 1] == '\n' && i < output->length && ++lines == TAIL_LINES) {
            break;
        }
        i--;
    }
    return i;
}

void pst_worker_output_tail(const struct pst_worker_output *output, struct pst_error *err)
{
    char text[TAIL_BYTES + 1];
    size_t n = 0;

    for (size_t i = tail_begin(output); i < output->length && n < TAIL_BYTES; i++) {
        unsigned char c = (unsigned char)output->bytes[i];

        if (c == '\0') {
            i++; /* a mark */
        } else if (c == '\n' || (c >= 0x20 && c != 0x7F)) {
            text[n++] = (char)c;
        }
    }
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    text[n] = '\0';
    if (n > 0) {
        pst_error_detail(err, "it printed last:\n%s\n", text);
    }
}
