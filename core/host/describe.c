/* SPDX-License-Identifier: Apache-2.0 */
#include "host/describe.h"

#include <pthread.h>
#include <string.h>

#include "base/text.h"
#include "base/wire.h"

#define START_NS     ((uint64_t)500000000) /* on a busy machine */
#define MEMORY_BYTES ((uint64_t)4 << 30)
#define MAX_WORDS    256

/* --- the description on the wire ---------------------------------------------------------------*/

/* Repeats the check of pst_plugin_open on a text that was read: a plugin may have forged it. */
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
    pass_plain(w, &p->url, false);
    pass_plain(w, &p->vendor, false);
    pst_wire_uint(w, &major);
    pst_wire_uint(w, &minor);
    p->abi_major = (uint16_t)major;
    p->abi_minor = (uint16_t)minor;
    pass_words(w, &p->provides);
    pass_words(w, &p->needs);
    pass_params(w, p);
}

/* --- in a process apart ------------------------------------------------------------------------*/

struct question {
    const char *path, *kind, *id;
    struct pst_arena *arena; /* where what is read lives */
};

static void pass_question(struct pst_wire *w, void *job)
{
    struct question *question = job;

    pst_wire_text(w, &question->path);
    pst_wire_text(w, &question->kind);
    pst_wire_text(w, &question->id);
    w->failed |= question->path == NULL;
}

static pst_status open_plugin(const void *job, bool (*cancelled)(void), void *ret_plugin,
                              struct pst_error *err)
{
    const struct question *question = job;
    const struct pst_plugin *plugin = NULL;
    pst_status status = pst_plugin_open(question->path, question->kind, question->id, &plugin, err);

    (void)cancelled;
    if (status == PST_OK) {
        memcpy(ret_plugin, plugin, /* an older one's is shorter */
               plugin->size < sizeof *plugin ? plugin->size : sizeof *plugin);
    }
    return status;
}

static pst_status pass_answer(struct pst_wire *w, const void *job, void *plugin,
                              struct pst_error *err)
{
    (void)err;
    if (w->reads) {
        w->arena = ((const struct question *)job)->arena;
        ((struct pst_plugin *)plugin)->size = sizeof(struct pst_plugin);
    }
    pass_plugin(w, plugin);
    return PST_OK;
}

static void finish(void *plugin)
{
    (void)plugin;
}

const struct pst_apart_kind pst_describe_kind = {
    .word = "describe",
    .plugin = "plugin",
    .job_size = sizeof(struct question),
    .answer_size = sizeof(struct pst_plugin),
    .pass_job = pass_question,
    .ask = open_plugin,
    .pass_answer = pass_answer,
    .finish = finish,
};

/* A file whose loading did not end once is not waited for again. */
static struct {
    pthread_mutex_t mutex;
    char path[512];
    struct pst_error why;
} endless = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static pst_status check_endless(const char *path, struct pst_error *err)
{
    pst_status status;

    pthread_mutex_lock(&endless.mutex);
    status = strcmp(endless.path, path) == 0 ? pst_error_pass(err, &endless.why) : PST_OK;
    pthread_mutex_unlock(&endless.mutex);
    return status;
}

static void note_endless(const char *path, const struct pst_error *why)
{
    pthread_mutex_lock(&endless.mutex);
    if (strlen(path) < sizeof endless.path) {
        memcpy(endless.path, path, strlen(path) + 1);
        endless.why = *why;
    }
    pthread_mutex_unlock(&endless.mutex);
}

static pst_status ask_process(struct pst_arena *arena, const char *path, const char *kind,
                              const char *id, uint64_t most_ns,
                              const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    const struct pst_worker_task limits = {.time_limit_ns = most_ns == 0 ? 0 : most_ns + START_NS,
                                           .memory_limit_bytes = MEMORY_BYTES,
                                           .describes = true};
    const struct question question = {path, kind, id, arena};
    struct pst_plugin *plugin = pst_arena_array(arena, 1, sizeof *plugin);
    struct pst_error why = {.status = PST_OK};
    pst_status status = check_endless(path, err);

    if (status != PST_OK) {
        return status;
    }
    status = pst_apart_ask(&pst_describe_kind, &question, path, &limits, NULL, plugin, &why);
    if (strcmp(why.kind, "plugin.timeout") == 0) {
        note_endless(path, &why);
    }
    *ret_plugin = status == PST_OK ? plugin : NULL;
    return pst_error_pass(err, &why);
}

pst_status pst_plugin_describe(struct pst_arena *arena, const char *path, const char *kind,
                               const char *id, uint64_t most_ns,
                               const struct pst_plugin **ret_plugin,
                               struct pst_shipped *ret_shipped, struct pst_error *err)
{
    struct pst_shipped shipped;
    pst_status status;

    pst_shipped_find(path, &shipped);
    status = shipped.is ? pst_plugin_open(path, kind, id, ret_plugin, err)
                        : ask_process(arena, path, kind, id, most_ns, ret_plugin, err);
    if (ret_shipped != NULL) {
        *ret_shipped = shipped;
    }
    return status;
}

pst_status pst_plugin_check_loading(const char *path, const char *kind, const char *id,
                                    uint64_t most_ns, struct pst_error *err)
{
    static char loads[16][512];
    static uint32_t n;
    struct pst_arena arena = {0};
    struct pst_error why = {.status = PST_OK};
    const struct pst_plugin *unused;
    bool known = false;
    pst_status status;

    pthread_mutex_lock(&endless.mutex);
    for (uint32_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        known = known || strcmp(loads[i], path) == 0;
    }
    pthread_mutex_unlock(&endless.mutex);
    if (known) {
        return PST_OK;
    }
    status = ask_process(&arena, path, kind, id, most_ns, &unused, &why);
    pst_arena_finish(&arena);
    if (strcmp(why.kind, "plugin.timeout") == 0) {
        return pst_error_pass(err, &why);
    }
    pthread_mutex_lock(&endless.mutex);
    if (status == PST_OK && strlen(path) < sizeof *loads) {
        memcpy(loads[n++ % (sizeof loads / sizeof *loads)], path, strlen(path) + 1);
    }
    pthread_mutex_unlock(&endless.mutex);
    return PST_OK;
}
