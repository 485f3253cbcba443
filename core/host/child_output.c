/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins print: the last 64 KiB of it are kept.
 */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "host/child_run.h"

#define TAIL_LINES 10
#define TAIL_BYTES 2048

/* The plugin that speaks behind the first n bytes. */
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
