/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conformance/elf.h"
#include "conformance/tests.h"
#include "conformance/traces.h"
#include "conformance/verdict.h"
#include "data/data_plugin.h"
#include "host/plugin_host.h"
#include "models/builder.h"

#define LOAD_MS      (100u * PST_CONFORMANCE_SLOWDOWN)
#define LOAD_WALL_MS (1000u * PST_CONFORMANCE_SLOWDOWN) /* a slow disk is not its fault */

static void open_plugin(struct pst_subject *subject)
{
    struct pst_error err = {0};

    if (pst_plugin_open(subject->path, NULL, NULL, &subject->plugin, &err) != PST_OK) {
        const char *text = err.message;
        size_t n = strlen(subject->path);

        /* The report names the file once. */
        text += strncmp(text, subject->path, n) == 0 && text[n] == ':' ? n + 2 : 0;
        pst_verdict_fail("%s", text);
    }
}

void pst_test_load(struct pst_subject *subject)
{
    struct pst_traces before, after;
    uint64_t wall, cpu;
    const char *left;

    pst_traces_take(&before);
    wall = pst_verdict_clock_ns();
    cpu = pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    open_plugin(subject);
    wall = (pst_verdict_clock_ns() - wall) / 1000000;
    cpu = (pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1000000;
    pst_traces_take(&after);
    left = pst_traces_differ(&before, &after, subject->folder);
    if (left != NULL) {
        pst_verdict_fail("loading it leaves %s behind; a constructor must not do that", left);
    }
    if (cpu > LOAD_MS || wall > LOAD_WALL_MS) {
        pst_verdict_fail("loading it takes %llu ms (%llu ms of work), more than %u ms",
                         (unsigned long long)wall, (unsigned long long)cpu, LOAD_MS);
    }
}

/* Functions of the C library that no plugin may use. */
static const char forbidden[] =
    " exit _exit _Exit quick_exit fork vfork system popen execl execlp execle execv execvp execve "
    "posix_spawn signal sigaction chdir fchdir setlocale rand random srand atexit on_exit "
    "at_quick_exit __cxa_thread_atexit __cxa_thread_atexit_impl daemon setsid ptrace kill alarm "
    "setitimer timer_create setrlimit setrlimit64 prlimit prlimit64 nice setpriority "
    "sched_setaffinity pthread_setaffinity_np feenableexcept ";

static bool is_forbidden(const char *name)
{
    char *word = pst_printf(" %s ", name);
    const bool is = strstr(forbidden, word) != NULL;

    free(word);
    return is;
}

void pst_test_exports(struct pst_subject *subject)
{
    struct pst_elf_symbols symbols;
    struct pst_arena arena = {0};
    struct pst_error err = {0};
    uint32_t i;

    if (pst_elf_read(subject->path, &arena, &symbols, &err) != PST_OK) {
        pst_verdict_fail("%s", err.message);
    }
    for (i = 0; i < symbols.n_exports; i++) {
        if (strcmp(symbols.exports[i], "pst_plugin_entry") != 0) {
            pst_verdict_fail("it exports %s besides pst_plugin_entry; compile it with "
                             "-fvisibility=hidden",
                             symbols.exports[i]);
        }
    }
    for (i = 0; i < symbols.n_imports; i++) {
        if (strncmp(symbols.imports[i], "pst_", 4) == 0) {
            pst_verdict_fail(
                "it imports %s from penstock; everything comes through struct pst_host",
                symbols.imports[i]);
        }
        if (is_forbidden(symbols.imports[i])) {
            pst_verdict_fail("it imports %s(), which a plugin must never call", symbols.imports[i]);
        }
    }
    pst_arena_finish(&arena);
}

/* Words that the strategies of a job can give each other; those with a value by their stem. */
static const char *const words[] = {"chain",
                                    "dag",
                                    "replicas",
                                    "ways",
                                    "per-stage-microbatch",
                                    "chunks",
                                    "placement",
                                    "split-backward",
                                    "two-way",
                                    "sequence-slices",
                                    "mixed-devices",
                                    "weight-versions",
                                    "async",
                                    "places-recompute",
                                    "alike",
                                    "recompute",
                                    "offload",
                                    "peer",
                                    "nested",
                                    "import",
                                    "within-memory",
                                    "exhaustive",
                                    "haste"};

static void check_words(const char *list, const char *const *given)
{
    for (; *given != NULL; given++) {
        size_t n = strcspn(*given, "="), i;

        for (i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (strlen(words[i]) == n && strncmp(words[i], *given, n) == 0) {
                break;
            }
        }
        if (i == sizeof words / sizeof words[0]) {
            pst_verdict_fail(".%s has \"%s\", which is not a capability word", list, *given);
        }
    }
}

/* Is `value` one of the words of "a|b|c"? */
static bool is_among(const char *list, const char *value)
{
    size_t n = strlen(value);

    for (; list != NULL && *list != '\0';
         list += strcspn(list, "|") + (strchr(list, '|') != NULL)) {
        if (strcspn(list, "|") == n && strncmp(list, value, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool takes(const struct pst_param *row, const char *value)
{
    return row->type == PST_PARAM_ENUM ? is_among(row->range, value)
                                       : row->type == PST_PARAM_INT && value[0] != '\0' &&
                                             value[strspn(value, "0123456789")] == '\0';
}

/* "haste=KEY:VALUE": a parameter that takes words, and one of them; or a number and one that takes
   numbers. */
static void check_ways(const struct pst_plugin *plugin)
{
    for (const char *const *word = plugin->provides; *word != NULL; word++) {
        const char *key = strchr(*word, '='), *colon = strchr(*word, ':');
        bool known = false;

        if (strncmp(*word, "haste", strlen("haste")) != 0) {
            continue;
        }
        for (uint32_t i = 0; key != NULL && colon > key && i < plugin->n_params; i++) {
            const struct pst_param *row =
                (const void *)((const char *)plugin->params + (size_t)i * plugin->param_size);

            known |= strlen(row->key) == (size_t)(colon - key - 1) &&
                     strncmp(row->key, key + 1, strlen(row->key)) == 0 && takes(row, colon + 1);
        }
        if (!known) {
            pst_verdict_fail(".provides has \"%s\", and no parameter has that value", *word);
        }
    }
}

void pst_test_description(struct pst_subject *subject)
{
    static const struct pst_manners polite;
    const struct pst_plugin *plugin = subject->plugin;
    struct pst_rig rig;
    const char *c;

    for (c = plugin->summary; *c != '\0'; c++) {
        if (*c == '\n') {
            pst_verdict_fail("its summary has more than one line");
        }
    }
    check_words("provides", plugin->provides);
    check_ways(plugin);
    check_words("needs", plugin->needs);
    if (strcmp(plugin->kind, "model") == 0 && pst_model_builder_find(plugin->id) != NULL) {
        pst_verdict_fail("penstock has a model \"%s\" itself; give it another id", plugin->id);
    }
    if (strcmp(plugin->kind, "data") == 0 && pst_data_is_built_in(plugin->id)) {
        pst_verdict_fail("penstock reads data.kind = \"%s\" itself; give it another id",
                         plugin->id);
    }
    if (plugin->n_params > 0 && plugin->config_size == 0) {
        pst_verdict_fail("it has parameters, but .config_size is 0");
    }
    /* Every default must be what the rows allow, and what create() takes. */
    switch (pst_rig_init(&rig, subject, &polite)) {
    case PST_OK:
        pst_rig_finish(&rig);
        return;
    default:
        pst_verdict_fail("create() refuses its own defaults%s%s",
                         rig.said[0] != '\0' ? ": " : " without a message", rig.said);
    }
}

void pst_test_interfaces(struct pst_subject *subject)
{
    static const char *const strange[] = {
        "",         "pst",           "pst.",          "/1",
        "1",        "pst./1",        "pst.nothing/1", "PST.SCHEDULER/1",
        "penstock", "pst.scheduler", "pst.cost/1"};
    const struct pst_plugin *plugin = subject->plugin;
    const char *kind = plugin->kind;
    const struct {
        const char *format;
    } near[] = {{"pst.%s/2"}, {"pst.%s/0"}, {"pst.%s/11"}, {"pst.%s/1 "}, {"pst.%s"},
                {"pst.%s/"},  {"%s/1"},     {" pst.%s/1"}, {"pst.%ss/1"}, {"pst.%s/1/1"}};
    char id[64];
    size_t i;

    pst_breadcrumb_enter(pst_breadcrumb_find(kind, plugin->id), PST_CRUMB_INTERFACE);
    for (i = 0; i < sizeof strange / sizeof strange[0] + sizeof near / sizeof near[0]; i++) {
        size_t k = i - sizeof near / sizeof near[0];
        const char *asked = id;

        if (i < sizeof near / sizeof near[0]) {
            const char *percent = strstr(near[i].format, "%s");

            snprintf(id, sizeof id, "%.*s%s%s", (int)(percent - near[i].format), near[i].format,
                     kind, percent + 2);
        } else {
            asked = strange[k];
        }
        if (plugin->get_interface(asked) != NULL) {
            pst_verdict_fail("get_interface(\"%s\") is not NULL; compare the whole id", asked);
        }
    }
    snprintf(id, sizeof id, "pst.%s/1", kind);
    if (plugin->get_interface(id) == NULL ||
        plugin->get_interface(id) != plugin->get_interface(id)) {
        pst_verdict_fail("get_interface(\"%s\") does not give the same table every time", id);
    }
    pst_breadcrumb_leave();
}
