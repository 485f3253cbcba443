/* SPDX-License-Identifier: Apache-2.0 */
#include "host/describe.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/child.h"
#include "host/wire.h"

#define TIME_LIMIT_NS ((uint64_t)3 * 1000000000u) /* loading takes milliseconds */
#define MEMORY_BYTES  ((uint64_t)4 << 30)
#define MAX_WORDS     256

static const char MAGIC[8] = "describe";

/* --- the description on the wire ---------------------------------------------------------------*/

static void write_words(struct pst_writer *w, const char *const *words)
{
    uint64_t n = 0;

    while (words[n] != NULL) {
        n++;
    }
    pst_write_number(w, n);
    for (uint64_t i = 0; i < n; i++) {
        pst_write_text(w, words[i]);
    }
}

/* What pst_plugin_open has checked over there, a plugin may have written itself. */
static const char *read_plain(struct pst_reader *r, bool required)
{
    const char *text = pst_read_text(r);

    r->failed |= text == NULL ? required : !pst_text_is_plain(text);
    return text;
}

static const char *const *read_words(struct pst_reader *r)
{
    uint32_t n = pst_read_count(r, sizeof(uint64_t));
    const char **words;

    r->failed |= n > MAX_WORDS;
    words = r->failed ? NULL : pst_arena_array(r->arena, n + 1, sizeof *words);
    r->failed |= words == NULL;
    for (uint32_t i = 0; !r->failed && i < n; i++) {
        words[i] = read_plain(r, true);
    }
    return words;
}

static void write_plugin(struct pst_writer *w, const struct pst_plugin *p)
{
    const char *const texts[] = {p->kind, p->id, p->version, p->summary, p->reference, p->license};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pst_write_text(w, texts[i]);
    }
    pst_write_number(w, p->abi_major);
    pst_write_number(w, p->abi_minor);
    write_words(w, p->provides);
    write_words(w, p->needs);
    pst_write_number(w, p->n_params);
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(p, i);

        pst_write_text(w, row->key);
        pst_write_text(w, row->initial);
        pst_write_text(w, row->range);
        pst_write_text(w, row->doc);
        pst_write_number(w, row->type);
    }
}

static void read_params(struct pst_reader *r, struct pst_plugin *p)
{
    uint32_t n = pst_read_count(r, sizeof(uint64_t));
    struct pst_param *rows = r->failed ? NULL : pst_arena_array(r->arena, n, sizeof *rows);

    r->failed |= rows == NULL;
    for (uint32_t i = 0; !r->failed && i < n; i++) {
        rows[i].key = read_plain(r, true);
        rows[i].initial = read_plain(r, false);
        rows[i].range = read_plain(r, false);
        rows[i].doc = read_plain(r, true);
        rows[i].type = (uint32_t)pst_read_number(r);
    }
    p->params = rows;
    p->n_params = r->failed ? 0 : n;
    p->param_size = sizeof *rows;
}

static pst_status read_plugin(struct pst_arena *arena, const char *bytes, size_t length,
                              const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    struct pst_reader r = {.at = bytes, .left = length, .arena = arena};
    struct pst_plugin *p = pst_arena_array(arena, 1, sizeof *p);
    const char **texts[] = {&p->kind, &p->id, &p->version, &p->summary, &p->reference, &p->license};

    if (p == NULL) {
        return pst_fail_nomem(err);
    }
    p->size = sizeof *p;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = read_plain(&r, true);
    }
    p->abi_major = (uint16_t)pst_read_number(&r);
    p->abi_minor = (uint16_t)pst_read_number(&r);
    p->provides = read_words(&r);
    p->needs = read_words(&r);
    read_params(&r, p);
    if (r.failed || r.left > 0) {
        pst_fail(err, PST_ERR_BUG, "plugin.crash", "what it said of itself is damaged");
        if (err != NULL) {
            err->exit_code = 3;
        }
        return PST_ERR_BUG;
    }
    *ret_plugin = p;
    return PST_OK;
}

/* --- both sides --------------------------------------------------------------------------------*/

static pst_status ask(struct pst_arena *arena, const char *path, const char *kind, const char *id,
                      const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    struct pst_worker_task task = {
        .time_limit_ns = TIME_LIMIT_NS, .memory_limit_bytes = MEMORY_BYTES, .describes = true};
    struct pst_writer w = {.bytes = NULL};
    char *job = NULL, *answer = NULL;
    size_t length = 0;
    pst_status st;

    pst_write(&w, MAGIC, sizeof MAGIC);
    pst_write_text(&w, path);
    pst_write_text(&w, kind);
    pst_write_text(&w, id);
    st = pst_write_end(&w, &job, &task.job_length, err);
    if (st == PST_OK) {
        task.job = job;
        st = pst_worker_run(&task, &answer, &length, err);
    }
    if (st == PST_OK) {
        st = read_plugin(arena, answer, length, ret_plugin, err);
        if (st == PST_ERR_BUG) {
            pst_error_prefix(err, "%s", path);
        }
    }
    free(answer);
    free(job);
    return st;
}

pst_status pst_plugin_describe(struct pst_arena *arena, const char *path, const char *kind,
                               const char *id, const struct pst_plugin **ret_plugin,
                               struct pst_shipped *ret_shipped, struct pst_error *err)
{
    struct pst_shipped shipped;
    pst_status st = pst_shipped_find(path, &shipped, err);

    if (st == PST_OK) {
        st = shipped.is ? pst_plugin_open(path, kind, id, ret_plugin, err)
                        : ask(arena, path, kind, id, ret_plugin, err);
    }
    if (ret_shipped != NULL) {
        *ret_shipped = shipped;
    }
    return st;
}

bool pst_describe_is(const char *job, size_t length)
{
    return length >= sizeof MAGIC && memcmp(job, MAGIC, sizeof MAGIC) == 0;
}

void pst_describe_serve(const char *job, size_t length)
{
    struct pst_arena arena = {0};
    struct pst_reader r = {
        .at = job + sizeof MAGIC, .left = length - sizeof MAGIC, .arena = &arena};
    const char *path = pst_read_text(&r), *kind = pst_read_text(&r), *id = pst_read_text(&r);
    const struct pst_plugin *plugin = NULL;
    struct pst_writer w = {.bytes = NULL};
    struct pst_error err = {.status = PST_OK};
    char *bytes = NULL;
    size_t n = 0;
    pst_status st =
        r.failed || path == NULL ? pst_fail(&err, PST_ERR_BUG, "internal", "half a job") : PST_OK;

    if (st == PST_OK) {
        pst_worker_started();
        st = pst_plugin_open(path, kind, id, &plugin, &err);
    }
    if (st == PST_OK) {
        write_plugin(&w, plugin);
        st = pst_write_end(&w, &bytes, &n, &err);
    }
    pst_worker_answer(st == PST_OK ? bytes : NULL, n, &err);
}
