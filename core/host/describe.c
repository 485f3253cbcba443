/* SPDX-License-Identifier: Apache-2.0 */
#include "host/describe.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/wire.h"

#define TIME_LIMIT_NS ((uint64_t)3 * 1000000000u) /* loading takes milliseconds */
#define MEMORY_BYTES  ((uint64_t)4 << 30)
#define MAX_WORDS     256

/* --- the description on the wire ---------------------------------------------------------------*/

/* What pst_plugin_open has checked over there, a plugin may have written itself. */
static void pass_plain(struct pst_wire *w, const char **text, bool required)
{
    pst_wire_text(w, text);
    w->failed |= w->reads && (*text == NULL ? required : !pst_text_is_plain(*text));
}

static void pass_words(struct pst_wire *w, const char *const **words)
{
    const char **taken = NULL;
    uint32_t n = 0;

    while (!w->reads && (*words)[n] != NULL) {
        n++;
    }
    pst_wire_count(w, &n, sizeof(uint64_t));
    w->failed |= w->reads && n > MAX_WORDS;
    if (w->reads) {
        taken = w->failed ? NULL : pst_arena_array(w->arena, n + 1, sizeof *taken);
        w->failed |= taken == NULL;
    }
    for (uint32_t i = 0; !w->failed && i < n; i++) {
        const char *word = w->reads ? NULL : (*words)[i];

        pass_plain(w, &word, true);
        if (w->reads) {
            taken[i] = word;
        }
    }
    *words = w->reads ? taken : *words;
}

static void pass_params(struct pst_wire *w, struct pst_plugin *p)
{
    struct pst_param *taken = NULL;

    pst_wire_count(w, &p->n_params, sizeof(uint64_t));
    if (w->reads) {
        taken = w->failed ? NULL : pst_arena_array(w->arena, p->n_params, sizeof *taken);
        w->failed |= taken == NULL;
        p->params = taken;
        p->param_size = sizeof *taken;
    }
    for (uint32_t i = 0; !w->failed && i < p->n_params; i++) {
        const struct pst_param *from = pst_plugin_param(p, i);
        struct pst_param row = {.key = from->key,
                                .initial = from->initial,
                                .range = from->range,
                                .doc = from->doc,
                                .type = from->type};

        pass_plain(w, &row.key, true);
        pass_plain(w, &row.initial, false);
        pass_plain(w, &row.range, false);
        pass_plain(w, &row.doc, true);
        pst_wire_uint(w, &row.type);
        if (w->reads) {
            taken[i] = row;
        }
    }
}

static void pass_plugin(struct pst_wire *w, struct pst_plugin *p)
{
    const char **texts[] = {&p->kind, &p->id, &p->version, &p->summary, &p->reference, &p->license};
    uint32_t major = p->abi_major, minor = p->abi_minor;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pass_plain(w, texts[i], true);
    }
    pst_wire_uint(w, &major);
    pst_wire_uint(w, &minor);
    p->abi_major = (uint16_t)major;
    p->abi_minor = (uint16_t)minor;
    pass_words(w, &p->provides);
    pass_words(w, &p->needs);
    pass_params(w, p);
}

static pst_status read_plugin(struct pst_arena *arena, const char *bytes, size_t length,
                              const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    struct pst_wire w = pst_wire_read(bytes, length, arena);
    struct pst_plugin *p = pst_arena_array(arena, 1, sizeof *p);

    p->size = sizeof *p;
    pass_plugin(&w, p);
    if (!pst_wire_is_read(&w)) {
        return pst_fail(err, PST_ERR_BUG, "plugin.crash", "what it said of itself is damaged");
    }
    *ret_plugin = p;
    return PST_OK;
}

/* --- both sides --------------------------------------------------------------------------------*/

struct question {
    const char *path, *kind, *id;
};

static void pass_question(struct pst_wire *w, struct question *question)
{
    pst_wire_text(w, &question->path);
    pst_wire_text(w, &question->kind);
    pst_wire_text(w, &question->id);
}

static pst_status ask(struct pst_arena *arena, const char *path, const char *kind, const char *id,
                      const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    struct pst_worker_task task = {
        .time_limit_ns = TIME_LIMIT_NS, .memory_limit_bytes = MEMORY_BYTES, .describes = true};
    struct question asked = {path, kind, id};
    struct pst_wire question = {.reads = false};
    char *answer = NULL;
    size_t length = 0;
    pst_status st;

    pst_wire_word(&question, pst_describe_service.word);
    pass_question(&question, &asked);
    st = pst_worker_ask(&task, &question, &answer, &length, err);
    if (st == PST_OK) {
        st = read_plugin(arena, answer, length, ret_plugin, err);
        if (st == PST_ERR_BUG) {
            pst_error_prefix(err, "%s", path);
        }
    }
    free(answer);
    return st;
}

pst_status pst_plugin_describe(struct pst_arena *arena, const char *path, const char *kind,
                               const char *id, const struct pst_plugin **ret_plugin,
                               struct pst_shipped *ret_shipped, struct pst_error *err)
{
    struct pst_shipped shipped;
    pst_status st;

    pst_shipped_find(path, &shipped);
    st = shipped.is ? pst_plugin_open(path, kind, id, ret_plugin, err)
                    : ask(arena, path, kind, id, ret_plugin, err);
    if (ret_shipped != NULL) {
        *ret_shipped = shipped;
    }
    return st;
}

static pst_status serve(const struct pst_worker_service *self, struct pst_wire *question,
                        struct pst_wire *answer, struct pst_error *err)
{
    const struct pst_plugin *plugin = NULL;
    struct question asked = {.path = NULL};
    struct pst_plugin copy;
    pst_status st;

    (void)self;
    pass_question(question, &asked);
    if (!pst_wire_is_read(question) || asked.path == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "half a job");
    }
    pst_worker_started();
    st = pst_plugin_open(asked.path, asked.kind, asked.id, &plugin, err);
    if (st == PST_OK) {
        copy = *plugin;
        pass_plugin(answer, &copy);
    }
    return st;
}

const struct pst_worker_service pst_describe_service = {"describe", serve};
