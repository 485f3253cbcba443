/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/conformance.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"
#include "conformance/spawn.h"
#include "conformance/tests.h"
#include "host/search.h"

enum { TIME_LIMIT_S = 20, ARGUMENTS_MAX = 80 };

struct run {
    const struct pst_conformance_question *question;
    const char *path;
    char program[4096], seed[32], folder[64];
};

static int remove_entry(const char *path, const struct stat *unused, int kind, struct FTW *at)
{
    (void)unused;
    (void)kind;
    if (at->level > 0) {
        (void)!remove(path); /* what cannot be removed stays */
    }
    return 0;
}

/* What a test may have left there. */
static void empty_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The call that ran; of another strategy beside the plugin, whose call it was. */
static void name_call(const struct pst_child *child, const char *path, char *text, size_t size)
{
    struct pst_blame blame;

    pst_breadcrumb_read(&child->verdict.crumbs, &blame);
    if (!blame.running) {
        snprintf(text, size, "in the checker");
    } else if (strcmp(blame.plugin.path, path) == 0) {
        snprintf(text, size, "%s", blame.where);
    } else {
        snprintf(text, size, "%s of %s \"%s\"", blame.where, blame.plugin.kind, blame.plugin.id);
    }
}

/* Says what killed a child, and in which call. */
static void explain_end(const struct pst_child *child, const char *path, uint32_t limit_s,
                        char *text, size_t size)
{
    int status = child->wait_status;
    char call[128];

    name_call(child, path, call, sizeof call);

    if (child->timed_out) {
        snprintf(text, size, "did not end within %u s, %s", limit_s, call);
    } else if (WIFSIGNALED(status) && child->verdict.ended == 0) {
        snprintf(text, size, "ended the process that started it, by signal %d (%s), %s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)), call);
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) {
        snprintf(text, size, "writes into a file %s", call);
    } else if (WIFSIGNALED(status)) {
        snprintf(text, size, "killed by signal %d (%s) %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), call);
    } else {
        snprintf(text, size, "the process exited with code %d %s", WEXITSTATUS(status), call);
    }
}

/* The first line of what it printed, without what does not print. */
static void quote_output(const struct pst_child *child, char *text, size_t size)
{
    size_t n = 0;

    while (n + 1 < size && n < 120 && child->output[n] != '\0' && child->output[n] != '\n') {
        text[n] = child->output[n] >= ' ' ? child->output[n] : '?';
        n++;
    }
    text[n] = '\0';
}

/* One line, whatever a table or a plugin put into it. */
static void make_line(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            *c = c[1] != '\0' ? ';' : '\0';
        }
    }
}

static void judge(const struct pst_child *child, const char *path, uint32_t limit_s,
                  struct pst_conformance_result *result)
{
    char printed[128];
    size_t used;

    quote_output(child, printed, sizeof printed);
    result->outcome = child->verdict.outcome;
    if (child->timed_out || !WIFEXITED(child->wait_status) ||
        WEXITSTATUS(child->wait_status) != 0 || result->outcome == 0 ||
        result->outcome > PST_CONFORMANCE_SKIP) {
        result->outcome = PST_CONFORMANCE_FAIL;
        explain_end(child, path, limit_s, result->text, sizeof result->text);
    } else {
        snprintf(result->text, sizeof result->text, "%s", child->verdict.text);
        make_line(result->text);
    }
    if (child->n_output == 0) {
        return;
    }
    if (result->outcome == PST_CONFORMANCE_PASS) {
        result->outcome = PST_CONFORMANCE_FAIL;
        snprintf(result->text, sizeof result->text, "it prints: \"%s\"; use host->log", printed);
        return;
    }
    used = strlen(result->text);
    snprintf(result->text + used, sizeof result->text - used, "; it prints: \"%s\"", printed);
}

static pst_status run_child(const struct run *run, const struct pst_conformance_test *test,
                            struct pst_conformance_result *result, uint64_t *ret_digest,
                            struct pst_error *err)
{
    const struct pst_conformance_question *question = run->question;
    uint32_t limit_s = question->time_limit_s, n = 0, i;
    const char *argv[ARGUMENTS_MAX];
    struct pst_child child;
    pst_status st;

    if (limit_s == 0) {
        limit_s = TIME_LIMIT_S * (PST_CONFORMANCE_SLOWDOWN > 1 ? 10 : 1);
    }
    argv[n++] = run->program;
    argv[n++] = PST_CONFORMANCE_CHILD;
    argv[n++] = run->path;
    argv[n++] = test->name;
    argv[n++] = run->seed;
    argv[n++] = run->folder;
    for (i = 0; i < question->n_sets && n + 1 < ARGUMENTS_MAX; i++) {
        argv[n++] = question->sets[i];
    }
    argv[n] = NULL;
    st = pst_child_run((char *const *)(uintptr_t)argv, limit_s, question->cancelled, &child, err);
    if (st == PST_OK && child.stopped) {
        st = pst_fail(err, PST_ERR_CANCELLED, "run.stopped", "stopped");
    } else if (st == PST_OK && child.verdict.outcome == PST_VERDICT_REFUSED) {
        st = pst_fail(err, PST_ERR_CONFIG, "config.value", "%s", child.verdict.text);
    } else if (st == PST_OK) {
        judge(&child, run->path, limit_s, result);
        pst_text_make_plain(result->text);
        *ret_digest = child.verdict.digest;
    }
    empty_folder(run->folder);
    return st;
}

static pst_status run_test(const struct run *run, const struct pst_conformance_test *test,
                           struct pst_conformance_result *result, struct pst_error *err)
{
    uint64_t begin = pst_now_ns(), first = 0, second = 0;
    pst_status st = run_child(run, test, result, &first, err);

    if (st == PST_OK && test->twice && result->outcome == PST_CONFORMANCE_PASS) {
        st = run_child(run, test, result, &second, err);
        if (st == PST_OK && result->outcome == PST_CONFORMANCE_PASS && first != second) {
            result->outcome = PST_CONFORMANCE_FAIL;
            snprintf(result->text, sizeof result->text,
                     "two processes get different answers: something depends on time, addresses "
                     "or memory that was never written");
        }
    }
    result->elapsed_ns = pst_now_ns() - begin;
    return st;
}

static pst_status run_all(const struct run *run, struct pst_conformance_report *report,
                          struct pst_error *err)
{
    bool usable = true;
    pst_status st = PST_OK;

    for (uint32_t i = 0; st == PST_OK && i < pst_conformance_n_tests; i++) {
        const struct pst_conformance_test *test = &pst_conformance_tests[i];
        struct pst_conformance_result *result = &report->results[report->n_results];

        if (run->question->only != NULL && strcmp(run->question->only, test->name) != 0) {
            continue;
        }
        result->name = test->name;
        result->what = test->what;
        if (usable) {
            st = run_test(run, test, result, err);
        } else {
            result->outcome = PST_CONFORMANCE_SKIP;
            snprintf(result->text, sizeof result->text, "the test \"load\" failed");
        }
        if (st == PST_OK) {
            report->n_results++;
            report->n_failed += result->outcome == PST_CONFORMANCE_FAIL;
            report->n_skipped += result->outcome == PST_CONFORMANCE_SKIP;
            usable &= !(test->first && result->outcome == PST_CONFORMANCE_FAIL);
            if (run->question->told != NULL) {
                run->question->told(run->question->context, result);
            }
        }
    }
    return st;
}

static pst_status check_only(const char *only, struct pst_error *err)
{
    const char *names[PST_CONFORMANCE_MAX], *nearest;
    pst_status st;

    for (uint32_t i = 0; i < pst_conformance_n_tests; i++) {
        names[i] = pst_conformance_tests[i].name;
        if (only == NULL || strcmp(only, names[i]) == 0) {
            return PST_OK;
        }
    }
    nearest = pst_nearest(only, names, pst_conformance_n_tests);
    st = pst_fail(err, PST_ERR_CONFIG, "config.value", "no test \"%s\"", only);
    if (nearest != NULL) {
        pst_error_hint(err, "did you mean \"%s\"?", nearest);
    }
    return st;
}

static pst_status find_program(const struct pst_conformance_question *question, struct run *run,
                               struct pst_error *err)
{
    ssize_t n;

    if (question->program != NULL) {
        snprintf(run->program, sizeof run->program, "%s", question->program);
        return PST_OK;
    }
    n = readlink("/proc/self/exe", run->program, sizeof run->program - 1);
    if (n <= 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "cannot find the program itself: /proc is not mounted");
    }
    run->program[n] = '\0';
    return PST_OK;
}

pst_status pst_conformance_run(const struct pst_conformance_question *question,
                               struct pst_conformance_report *ret_report, struct pst_error *err)
{
    struct run run = {.question = question};
    struct pst_arena arena = {0};
    pst_status st = pst_search_secure(&arena, question->path, &run.path, err);

    memset(ret_report, 0, sizeof *ret_report);
    ret_report->seed = question->seed;
    if (st == PST_OK) {
        st = check_only(question->only, err);
    }
    if (st == PST_OK) {
        st = find_program(question, &run, err);
    }
    if (st != PST_OK) {
        goto out;
    }
    snprintf(run.seed, sizeof run.seed, "%llu", (unsigned long long)question->seed);
    snprintf(run.folder, sizeof run.folder, "/tmp/penstock-check-XXXXXX");
    if (mkdtemp(run.folder) == NULL) {
        st = pst_fail(err, PST_ERR_IO, "output.write", "cannot make a folder in /tmp");
        goto out;
    }
    st = run_all(&run, ret_report, err);
    rmdir(run.folder);
out:
    pst_arena_finish(&arena);
    return st;
}
