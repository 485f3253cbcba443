/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "host/apart.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "ask/problem_file.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static bool is_answer; /* what runs was made by the program and must not be refused */

__attribute__((weak)) void fuzz_begin(void)
{
}

/* libFuzzer calls this before it looks for inputs, so what is kept here is found. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    pst_log_set_level(PST_LOG_ERROR);
    fuzz_begin();
    return 0;
}

/* FUZZ_SEEDS: the folder. Replaying takes them as they come. */
void fuzz_keep(const void *bytes, size_t n)
{
    const char *folder = getenv("FUZZ_SEEDS");
    static unsigned count;
    struct pst_error err;
    char path[4096];

    if (folder == NULL) {
        LLVMFuzzerTestOneInput(bytes, n);
        return;
    }
    snprintf(path, sizeof path, "%s/made-%u", folder, count++);
    if (pst_file_write(path, bytes, n, &err) != PST_OK) {
        fuzz_fail("%s", err.message);
    }
}

void fuzz_keep_behind(uint32_t question, const void *bytes, size_t n)
{
    char *input = malloc(n + 1);

    if (input == NULL) {
        fuzz_fail("no memory");
    }
    input[0] = (char)question;
    memcpy(input + 1, bytes, n);
    is_answer = true;
    fuzz_keep(input, n + 1);
    is_answer = false;
    free(input);
}

const char *fuzz_file(const void *bytes, size_t n)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n) {
        fuzz_fail("a file in memory cannot be written");
    }
    return path;
}

struct pst_problem *fuzz_problem(const char *name)
{
    struct pst_problem *problem = NULL;
    struct pst_error err;
    char path[4096];

    snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/%s", name);
    if (pst_problem_read(path, &problem, &err) != PST_OK) {
        fuzz_fail("%s: %s", path, err.message);
    }
    return problem;
}

void fuzz_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

bool fuzz_judge(pst_status st, const struct pst_error *err)
{
    if (st != PST_OK && (err->status != st || err->kind[0] == '\0' || err->message[0] == '\0')) {
        fuzz_fail("status %d, error of status %d, kind \"%s\", message \"%s\"", st, err->status,
                  err->kind, err->message);
    }
    if (st != PST_OK && st != PST_ERR_INFEASIBLE && is_answer) {
        fuzz_fail("the program's own answer is refused: %s", err->message);
    }
    return st == PST_OK;
}

void fuzz_keep_answer(uint32_t question, const struct pst_apart_kind *kind, const void *job)
{
    void *answer = malloc(kind->answer_size);
    struct pst_wire w = {.reads = false};
    struct pst_error err = {0};

    if (!fuzz_judge(pst_apart_ask(kind, job, "it", NULL, NULL, answer, &err), &err)) {
        fuzz_fail("%s %u: %s", kind->word, question, err.message);
    }
    pst_apart_put(kind, job, answer, &w);
    fuzz_keep_behind(question, w.bytes, w.n);
    kind->finish(answer);
    free(w.bytes);
    free(answer);
}

bool fuzz_take_answer(const uint8_t *data, size_t size, const struct pst_apart_kind *kind,
                      const void *job, void *ret_answer)
{
    struct pst_error err = {0};

    return size > 0 && fuzz_judge(pst_apart_take(kind, job, "it", (const char *)data + 1, size - 1,
                                                 ret_answer, &err),
                                  &err);
}
