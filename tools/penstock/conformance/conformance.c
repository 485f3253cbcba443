/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/conformance.h"

#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"
#include "conformance/tests.h"
#include "conformance/verdict.h"
#include "host/process.h"
#include "host/search.h"

enum { TIME_LIMIT_S = 20, ARGUMENTS_MAX = 80, OUTPUT_BYTES = 4096, POLL_MS = 5 };

/* The outcome of a test's process. */
struct child {
    bool timed_out, stopped; /* stopped: the checker itself shall end */
    int wait_status;         /* of the plugin's process; of its parent where that ended first */
    struct pst_verdict verdict;
    size_t n_output; /* bytes written in all */
    char output[OUTPUT_BYTES + 1];
};

/* Keeps the beginning of what there is to read; the rest is counted. */
static void read_output(int output, struct child *child)
{
    char buffer[4096];
    ssize_t n;

    while ((n = read(output, buffer, sizeof buffer)) > 0) {
        size_t kept = child->n_output < OUTPUT_BYTES ? OUTPUT_BYTES - child->n_output : 0;

        kept = kept < (size_t)n ? kept : (size_t)n;
        memcpy(child->output + (child->n_output < OUTPUT_BYTES ? child->n_output : 0), buffer,
               kept);
        child->n_output += (size_t)n;
        if (child->n_output > (size_t)1 << 24) {
            break; /* it floods: its time limit comes first */
        }
    }
}

/* Until it has ended, by itself or at the limit; its whole group goes with it. */
static void watch_process(struct pst_process *process, uint32_t time_limit_s,
                          bool (*cancelled)(void), struct child *child)
{
    uint64_t end = pst_now_ns() + (uint64_t)time_limit_s * 1000000000u;

    for (;;) {
        struct pollfd wait = {.fd = process->output_fd, .events = POLLIN};

        poll(&wait, 1, POLL_MS);
        read_output(process->output_fd, child);
        if (pst_process_has_ended(process)) {
            break;
        }
        if ((wait.revents & POLLHUP) != 0) {
            poll(NULL, 0, POLL_MS); /* it has closed its output: nothing to poll for */
        }
        if (pst_now_ns() > end) {
            child->timed_out = true;
            break;
        }
        if (cancelled != NULL && cancelled()) {
            child->stopped = true;
            break;
        }
    }
    pst_process_end(process);
    read_output(process->output_fd, child);
}

/* malloc goes without a cache of what was freed, whose blocks count as used. */
static pst_status run_process(char *const *argv, uint32_t time_limit_s, bool (*cancelled)(void),
                              struct child *ret_child, struct pst_error *err)
{
    struct pst_process process;
    int error = pst_process_start(&process, argv, "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
                                  false, sizeof ret_child->verdict);

    memset(ret_child, 0, sizeof *ret_child);
    if (error == 0) {
        watch_process(&process, time_limit_s, cancelled, ret_child);
        memcpy(&ret_child->verdict, process.page, sizeof ret_child->verdict);
        ret_child->wait_status =
            ret_child->verdict.ended != 0 ? ret_child->verdict.wait_status : process.wait_status;
        ret_child->verdict.text[sizeof ret_child->verdict.text - 1] = '\0';
    }
    pst_process_finish(&process);
    return error == 0 ? PST_OK
                      : pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                                 "cannot start a process for a test: %s", strerror(error));
}

struct run {
    const struct pst_conformance_question *question;
    const char *path, *kind; /* of the plugin, by its file's name */
    char seed[32], folder[64];
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

/* Removes what a test may have left in the folder. */
static void empty_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The call that ran; of another strategy beside the plugin, whose call it was. */
static void name_call(const struct child *child, const char *path, char *text, size_t size)
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
static void explain_end(const struct child *child, const char *path, uint32_t limit_s, char *text,
                        size_t size)
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
static void quote_output(const struct child *child, char *text, size_t size)
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

static void judge_child(const struct child *child, const char *path, uint32_t limit_s,
                        struct pst_conformance_result *result)
{
    char printed[128];

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
    pst_text_append(result->text, sizeof result->text, "; it prints: \"%s\"", printed);
}

static pst_status run_child(const struct run *run, const struct pst_conformance_test *test,
                            struct pst_conformance_result *result, uint64_t *ret_digest,
                            struct pst_error *err)
{
    const struct pst_conformance_question *question = run->question;
    uint32_t limit_s = question->time_limit_s, n = 0, i;
    const char *argv[ARGUMENTS_MAX];
    struct child child;
    pst_status status;

    if (limit_s == 0) {
        limit_s = TIME_LIMIT_S * (PST_CONFORMANCE_SLOWDOWN > 1 ? 10 : 1);
    }
    argv[n++] = "penstock";
    argv[n++] = PST_CONFORMANCE_CHILD;
    argv[n++] = run->path;
    argv[n++] = test->name;
    argv[n++] = run->seed;
    argv[n++] = run->folder;
    for (i = 0; i < question->n_sets && n + 1 < ARGUMENTS_MAX; i++) {
        argv[n++] = question->sets[i];
    }
    argv[n] = NULL;
    status = run_process((char *const *)(uintptr_t)argv, limit_s, question->cancelled, &child, err);
    if (status == PST_OK && child.stopped) {
        status = pst_fail(err, PST_ERR_CANCELLED, "run.stopped", "stopped");
    } else if (status == PST_OK && child.verdict.outcome == PST_VERDICT_REFUSED) {
        status = pst_fail(err, PST_ERR_CONFIG, "config.value", "%s", child.verdict.text);
    } else if (status == PST_OK) {
        judge_child(&child, run->path, limit_s, result);
        pst_text_make_plain(result->text);
        *ret_digest = child.verdict.digest;
    }
    empty_folder(run->folder);
    return status;
}

static pst_status run_test(const struct run *run, const struct pst_conformance_test *test,
                           struct pst_conformance_result *result, struct pst_error *err)
{
    uint64_t begin = pst_now_ns(), first = 0, second = 0;
    pst_status status = run_child(run, test, result, &first, err);

    if (status == PST_OK && test->twice && result->outcome == PST_CONFORMANCE_PASS) {
        status = run_child(run, test, result, &second, err);
        if (status == PST_OK && result->outcome == PST_CONFORMANCE_PASS && first != second) {
            result->outcome = PST_CONFORMANCE_FAIL;
            snprintf(result->text, sizeof result->text,
                     "two processes get different answers: something depends on time, addresses "
                     "or memory that was never written");
        }
    }
    result->elapsed_ns = pst_now_ns() - begin;
    return status;
}

/* Is the kind among the words of the test's? */
static bool is_for_kind(const struct pst_conformance_test *test, const char *kind)
{
    const size_t n = strlen(kind);
    const char *at = test->kinds;

    while (at != NULL && (strncmp(at, kind, n) != 0 || (at[n] != ' ' && at[n] != '\0'))) {
        at = strchr(at, ' ');
        at += at != NULL;
        if (at == NULL) {
            return false;
        }
    }
    return true;
}

static pst_status run_all(const struct run *run, struct pst_conformance_report *report,
                          struct pst_error *err)
{
    bool usable = true;
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < pst_conformance_n_tests; i++) {
        const struct pst_conformance_test *test = &pst_conformance_tests[i];
        struct pst_conformance_result *result = &report->results[report->n_results];

        if (!is_for_kind(test, run->kind) ||
            (run->question->only != NULL && strcmp(run->question->only, test->name) != 0)) {
            continue;
        }
        result->name = test->name;
        result->what = test->what;
        if (usable) {
            status = run_test(run, test, result, err);
        } else {
            result->outcome = PST_CONFORMANCE_SKIP;
            snprintf(result->text, sizeof result->text, "the test \"load\" failed");
        }
        if (status == PST_OK) {
            report->n_results++;
            report->n_failed += result->outcome == PST_CONFORMANCE_FAIL;
            report->n_skipped += result->outcome == PST_CONFORMANCE_SKIP;
            usable &= !(test->first && result->outcome == PST_CONFORMANCE_FAIL);
            if (run->question->told != NULL) {
                run->question->told(run->question->context, result);
            }
        }
    }
    return status;
}

static pst_status check_only(const char *only, const char *kind, struct pst_error *err)
{
    const char *names[PST_CONFORMANCE_MAX], *nearest;
    uint32_t n = 0;
    pst_status status;

    for (uint32_t i = 0; i < pst_conformance_n_tests; i++) {
        if (!is_for_kind(&pst_conformance_tests[i], kind)) {
            continue;
        }
        names[n++] = pst_conformance_tests[i].name;
        if (only == NULL || strcmp(only, names[n - 1]) == 0) {
            return PST_OK;
        }
    }
    nearest = pst_nearest(only, names, n);
    status = pst_fail(err, PST_ERR_CONFIG, "config.value", "no test \"%s\"", only);
    if (nearest != NULL) {
        pst_error_hint(err, "did you mean \"%s\"?", nearest);
    }
    return status;
}

pst_status pst_conformance_run(const struct pst_conformance_question *question,
                               struct pst_conformance_report *ret_report, struct pst_error *err)
{
    struct run run = {.question = question};
    struct pst_arena arena = {0};
    const char *id = NULL;
    pst_status status = pst_search_secure(&arena, question->path, &run.path, err);

    memset(ret_report, 0, sizeof *ret_report);
    ret_report->seed = question->seed;
    if (status == PST_OK &&
        (!pst_search_split(&arena, strrchr(run.path, '/') + 1, &run.kind, &id) ||
         run.kind == NULL)) {
        run.kind = "scheduler"; /* the test "load" refuses the name */
    }
    PST_TRY(status, check_only(question->only, run.kind, err));
    if (status != PST_OK) {
        goto out;
    }
    snprintf(run.seed, sizeof run.seed, "%llu", (unsigned long long)question->seed);
    snprintf(run.folder, sizeof run.folder, "/tmp/penstock-check-XXXXXX");
    if (mkdtemp(run.folder) == NULL) {
        status = pst_fail(err, PST_ERR_IO, "output.write", "cannot make a folder in /tmp");
        goto out;
    }
    status = run_all(&run, ret_report, err);
    rmdir(run.folder);
out:
    pst_arena_finish(&arena);
    return status;
}
