/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that are to run on NCCL, where one queue holds the sends and receives of a rank, or each
 * edge has one: the checker proves that those of synchronous schedulers do with one, says of others
 * what they need, and gives it to them where it may choose. It takes neither a GPU nor the
 * transport.
 */
#include "test.h"

#include "expect_error.h"

static const char config[] =
    "[model]\nuse = \"gpt\"\ntied = false\nlayers = 4\ndim = 16\ncontext = 8\nheads = 2\n"
    "[train]\nbatch = 8\nmicrobatch = 1\nclip = 0\n"
    "[cluster]\ndevices = 4\n[partitioner]\nuse = \"uniform\"\n"
    "[run]\ntransport = \"threads\"\n[scheduler]\nuse = \"%s\"\n";

/* The same plan, for the other transport. */
static const char *for_nccl(const char *plan, const char *p2p)
{
    char *text = support_read(plan), *at, *changed;
    const char *path;

    assert_non_null(text);
    at = strstr(text, "\"threads\"");
    assert_non_null(at);
    changed = malloc(strlen(text) + 64);
    assert_non_null(changed);
    sprintf(changed, "%.*s\"nccl\",\"p2p\":\"%s\"%s", (int)(at - text), text, p2p,
            at + strlen("\"threads\""));
    path = support_write("nccl.json", changed);
    free(changed);
    free(text);
    return path;
}

/* Plans with a scheduler, and checks the plan as one for NCCL. */
static struct outcome check(const char *scheduler, const char *p2p)
{
    const char *plan = support_path("plan.json");
    struct outcome outcome;
    char text[sizeof config + 64];

    snprintf(text, sizeof text, config, scheduler);
    outcome = penstock("plan", support_write("c.toml", text), "-o", plan);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    outcome = penstock("check", plan);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    return penstock("check", for_nccl(plan, p2p));
}

static void expect_legal(const char *scheduler, const char *p2p)
{
    struct outcome outcome = check(scheduler, p2p);

    expect_code(&outcome, 0);
    assert_non_null(strstr(outcome.out, "legal"));
    outcome_finish(&outcome);
}

TEST(synchronous_plans)
{
    static const char *const schedulers[] = {"1f1b", "gpipe", "zb-h1", "zbv", "interleaved"};

    for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        expect_legal(schedulers[i], "ordered");
        expect_legal(schedulers[i], "auto");
    }
    expect_legal("1f1b", "edge");
}

TEST(one_queue_is_too_few)
{
    struct outcome outcome = check("2bw", "ordered");

    expect_code(&outcome, 1);
    assert_non_null(strstr(outcome.out, "LIVE2"));
    assert_non_null(strstr(outcome.out, "whose sends and receives are separate queues"));
    assert_non_null(strstr(outcome.out, "LIVE4"));
    outcome_finish(&outcome);
}

TEST(a_queue_for_each)
{
    static const char *const schedulers[] = {"2bw", "pipedream"};

    for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        expect_legal(schedulers[i], "edge");
        expect_legal(schedulers[i], "auto");
    }
}

TEST_GROUP(support_begin, support_end)
