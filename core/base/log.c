/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text.h"

#define UNSET UINT32_MAX

static const char *const names[] = {"error", "warn", "info", "debug"};
static _Atomic uint32_t current = UNSET;
static void (*current_sink)(uint32_t level, const char *area, const char *text);

void pst_log_set_sink(void (*sink)(uint32_t level, const char *area, const char *text))
{
    current_sink = sink;
}

void pst_log_set_level(uint32_t level)
{
    atomic_store(&current, level > PST_LOG_DEBUG ? PST_LOG_DEBUG : level);
}

static uint32_t level_from_environment(void)
{
    const char *text = getenv("PENSTOCK_LOG");

    for (uint32_t i = 0; text != NULL && i <= PST_LOG_DEBUG; i++) {
        if (strcmp(text, names[i]) == 0 || (text[0] == (char)('0' + i) && text[1] == '\0')) {
            return i;
        }
    }
    return PST_LOG_WARN;
}

uint32_t pst_log_level(void)
{
    uint32_t level = atomic_load(&current);

    if (level == UNSET) {
        uint32_t expected = UNSET;

        level = level_from_environment();
        if (!atomic_compare_exchange_strong(&current, &expected, level)) {
            level = expected;
        }
    }
    return level;
}

void pst_log(uint32_t level, const char *area, const char *format, ...)
{
    char line[1024];
    va_list args;
    size_t n;

    if (level > pst_log_level()) {
        return;
    }
    level = level > PST_LOG_DEBUG ? PST_LOG_DEBUG : level;
    if (current_sink != NULL) {
        va_start(args, format);
        vsnprintf(line, sizeof line, format, args);
        va_end(args);
        current_sink(level, area, line);
        return;
    }
    snprintf(line, sizeof line - 1, "%s %s: ", names[level], area);
    n = strlen(line);
    va_start(args, format);
    vsnprintf(line + n, sizeof line - 1 - n, format, args);
    va_end(args);
    pst_text_make_plain(line); /* one record is one line, whatever a file name put into it */
    n = strlen(line);
    line[n] = '\n';
    fwrite(line, 1, n + 1, stderr); /* one call: lines of several threads do not mix */
}

void pst_log_once(uint32_t level, const char *area, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t told[256];
    static uint32_t n;
    const uint64_t key = XXH3_64bits(text, strlen(text)); /* 64 bits do for a few texts */
    uint32_t i = 0;
    bool is_new;

    pthread_mutex_lock(&lock);
    while (i < n && told[i] != key) {
        i++;
    }
    is_new = i == n && n < sizeof told / sizeof told[0];
    if (is_new) {
        told[n++] = key;
    }
    pthread_mutex_unlock(&lock);
    if (is_new) {
        pst_log(level, area, "%s", text);
    }
}
