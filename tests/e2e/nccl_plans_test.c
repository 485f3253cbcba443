/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that are to run on NCCL, where one queue holds the sends and receives of a rank: the
 * checker proves that those of synchronous schedulers do, and says of others what they need. It
 * takes neither a GPU nor the transport.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "expect_error.h"

static const char config[] =
    "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 16\ncontext = 8\nheads = 2\n"
    "[train]\nbatch = 8\nmicrobatch = 1\nclip = 0\n"
    "[cluster]\ndevices = 4\n[partitioner]\nuse = \"uniform\"\n"
    "[run]\ntransport = \"threads\"\n[scheduler]\nuse = \"%s\"\n";

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text;
    long n;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    rewind(file);
    text = calloc((size_t)n + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)n, file), n);
    fclose(file);
    return text;
}

/* The same plan, for the other transport. */
static void write_for_nccl(const char *from, const char *to)
{
    char *text = read_all(from), *at = strstr(text, "\"threads\"");
    FILE *file = fopen(to, "wb");

    assert_non_null(at);
    assert_non_null(file);
    fprintf(file, "%.*s\"nccl\"%s", (int)(at - text), text, at + strlen("\"threads\""));
    assert_int_equal(fclose(file), 0);
    free(text);
}

/* Plans with a scheduler, and checks the plan as one for NCCL. */
static struct outcome check(const char *scheduler)
{
    char folder[] = "/tmp/penstock-nccl-XXXXXX", path[64], plan[64], other[64];
    struct outcome outcome;
    FILE *file;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.toml", folder);
    snprintf(plan, sizeof plan, "%s/p.json", folder);
    snprintf(other, sizeof other, "%s/q.json", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, config, scheduler);
    fclose(file);
    outcome = penstock("plan", path, "-o", plan);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    outcome = penstock("check", plan);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    write_for_nccl(plan, other);
    outcome = penstock("check", other);
    unlink(path);
    unlink(plan);
    unlink(other);
    rmdir(folder);
    return outcome;
}

static void synchronous_plans(void **state)
{
    static const char *const schedulers[] = {"1f1b", "gpipe", "zb-h1", "zbv", "interleaved"};

    (void)state;
    for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        struct outcome outcome = check(schedulers[i]);

        expect_code(&outcome, 0);
        assert_non_null(strstr(outcome.out, "legal"));
        outcome_finish(&outcome);
    }
}

static void one_queue_is_too_few(void **state)
{
    struct outcome outcome = check("2bw");

    (void)state;
    expect_code(&outcome, 1);
    assert_non_null(strstr(outcome.out, "LIVE2"));
    assert_non_null(strstr(outcome.out, "whose sends and receives are separate queues"));
    assert_non_null(strstr(outcome.out, "LIVE4"));
    outcome_finish(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synchronous_plans),
        cmocka_unit_test(one_queue_is_too_few),
    };

    return cmocka_run_group_tests_name("plans for NCCL", tests, NULL, NULL);
}
